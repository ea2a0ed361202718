package transfers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/picture"
)

// signer makes links that only the holder of the server's secret can make: every node, and
// the next one after a restart. The server does not store links.
type signer []byte

const (
	untilLen = 7 // of seconds in base 36, until the year 4453
	macLen   = 43
	textLen  = 2*ids.Len + untilLen + 1
	seatLen  = 2 * ids.Len // of a link from a room
)

// claim is the text of a link.
type claim struct {
	id    ID
	what  variant
	user  accounts.ID // whose right to the file the link has
	until time.Time

	room, viewer string // of a link from a room: the viewer whose place in the room the link needs, too
}

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

// mac is over texts of two fixed lengths.
func (s signer) mac(text string) string {
	h := hmac.New(sha256.New, s)
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(label))))
	h.Write([]byte(label + text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// label tells a link from what else the secret signs.
const label = "file link"

func (s signer) link(c claim) string {
	text := c.id.String() + c.user.String() + fmt.Sprintf("%0*s", untilLen, strconv.FormatInt(c.until.Unix(), 36)) + string(c.what) + c.room + c.viewer
	return text + s.mac(text)
}

// check parses a link. It returns false for a link that is not signed with the server's secret or the previous one.
func (s *Service) check(link string) (claim, bool) {
	c, ok := s.signer.check(link)
	if !ok && s.previous != nil {
		return s.previous.check(link)
	}
	return c, ok
}

// check parses a link. It returns false for a link that is not signed with this secret.
func (s signer) check(link string) (claim, bool) {
	n := len(link) - macLen
	if n != textLen && n != textLen+seatLen {
		return claim{}, false
	}
	text, mac := link[:n], link[n:]
	if !hmac.Equal([]byte(mac), []byte(s.mac(text))) {
		return claim{}, false
	}
	text, seat := text[:textLen], text[textLen:]
	id, malformed := ids.Parse[Transfer](text[:ids.Len])
	user, malformedUser := ids.Parse[accounts.User](text[ids.Len : 2*ids.Len])
	seconds, err := strconv.ParseInt(text[2*ids.Len:2*ids.Len+untilLen], 36, 64)
	c := claim{id: id, what: variant(text[textLen-1]), user: user, until: time.Unix(seconds, 0).UTC()}
	if seat != "" {
		c.room, c.viewer = seat[:ids.Len], seat[ids.Len:]
	}
	return c, malformed == nil && malformedUser == nil && err == nil
}

// sameAs returns instead for an error that is what, and other errors as they are.
func sameAs(err, what, instead error) error {
	if errors.Is(err, what) {
		return instead
	}
	return err
}
