package transfers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
)

// signer makes links that only the holder of the server's secret can make: every node, and
// the next one after a restart. A link names a transfer, the user who asked for it and its end,
// and nothing of it is stored.
type signer []byte

const (
	untilLen = 7 // of seconds in base 36, until the year 4453
	macLen   = 43
	linkLen  = 2*ids.Len + untilLen + macLen
)

// mac is over texts of fixed lengths.
func (s signer) mac(text string) string {
	h := hmac.New(sha256.New, s)
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(label))))
	h.Write([]byte(label + text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// label tells a link from what else the secret signs.
const label = "file link"

func (s signer) link(id ID, user accounts.ID, until time.Time) string {
	text := strconv.FormatInt(until.Unix(), 36)
	for len(text) < untilLen {
		text = "0" + text
	}
	text = id.String() + user.String() + text
	return text + s.mac(text)
}

// check takes a link apart. False for one that this server has not made.
func (s signer) check(link string) (id ID, user accounts.ID, until time.Time, ok bool) {
	if len(link) != linkLen {
		return id, user, until, false
	}
	text, mac := link[:linkLen-macLen], link[linkLen-macLen:]
	if !hmac.Equal([]byte(mac), []byte(s.mac(text))) {
		return id, user, until, false
	}
	id, malformed := ids.Parse[Transfer](text[:ids.Len])
	user, malformedUser := ids.Parse[accounts.User](text[ids.Len : 2*ids.Len])
	seconds, err := strconv.ParseInt(text[2*ids.Len:], 36, 64)
	return id, user, time.Unix(seconds, 0).UTC(), malformed == nil && malformedUser == nil && err == nil
}

// sameAs returns instead for an error that is what, and other errors as they are.
func sameAs(err, what, instead error) error {
	if errors.Is(err, what) {
		return instead
	}
	return err
}
