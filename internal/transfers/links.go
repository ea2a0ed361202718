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
	"github.com/stoa-dev/stoa/internal/foundation/picture"
)

// signer makes links that only the holder of the server's secret can make: every node, and
// the next one after a restart. A link names a transfer, what of it, the user who asked for it and its
// end, and nothing of it is stored.
type signer []byte

const (
	untilLen = 7 // of seconds in base 36, until the year 4453
	macLen   = 43
	linkLen  = 2*ids.Len + untilLen + 1 + macLen
)

// variant is what of a file a link leads to.
type variant byte

// The variants.
const (
	whole variant = 'w'
	small variant = 's' // the thumbnail of the smallest side
	large variant = 'l' // that of the largest
)

// variantOf returns the one with thumbnails of a side; 0 is the whole file. ErrNoSmall.
func variantOf(side int) (variant, error) {
	switch side {
	case 0:
		return whole, nil
	case picture.Sides[len(picture.Sides)-1]:
		return small, nil
	case picture.Sides[0]:
		return large, nil
	}
	return 0, ErrNoSmall
}

// side returns the longer side of the variant's thumbnail, in pixels.
func (v variant) side() int {
	if v == small {
		return picture.Sides[len(picture.Sides)-1]
	}
	return picture.Sides[0]
}

// mac is over texts of fixed lengths.
func (s signer) mac(text string) string {
	h := hmac.New(sha256.New, s)
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(label))))
	h.Write([]byte(label + text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// label tells a link from what else the secret signs.
const label = "file link"

func (s signer) link(id ID, what variant, user accounts.ID, until time.Time) string {
	text := strconv.FormatInt(until.Unix(), 36)
	for len(text) < untilLen {
		text = "0" + text
	}
	text = id.String() + user.String() + text + string(what)
	return text + s.mac(text)
}

// check takes a link apart. False for one that this server has not made, with its secret or the previous one.
func (s *Service) check(link string) (id ID, what variant, user accounts.ID, until time.Time, ok bool) {
	id, what, user, until, ok = s.signer.check(link)
	if !ok && s.previous != nil {
		return s.previous.check(link)
	}
	return id, what, user, until, ok
}

// check takes a link apart. False for one that is not of this secret.
func (s signer) check(link string) (id ID, what variant, user accounts.ID, until time.Time, ok bool) {
	if len(link) != linkLen {
		return id, 0, user, until, false
	}
	text, mac := link[:linkLen-macLen], link[linkLen-macLen:]
	if !hmac.Equal([]byte(mac), []byte(s.mac(text))) {
		return id, 0, user, until, false
	}
	id, malformed := ids.Parse[Transfer](text[:ids.Len])
	user, malformedUser := ids.Parse[accounts.User](text[ids.Len : 2*ids.Len])
	seconds, err := strconv.ParseInt(text[2*ids.Len:2*ids.Len+untilLen], 36, 64)
	return id, variant(text[len(text)-1]), user, time.Unix(seconds, 0).UTC(), malformed == nil && malformedUser == nil && err == nil
}

// sameAs returns instead for an error that is what, and other errors as they are.
func sameAs(err, what, instead error) error {
	if errors.Is(err, what) {
		return instead
	}
	return err
}
