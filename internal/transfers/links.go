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

// signer signs links with the server's secret. All nodes have the same secret, and it stays the same after a restart.
// The server does not store links.
type signer []byte

const (
	untilLen = 7 // of seconds in base 36, until the year 4453
	macLen   = 43
	textLen  = 2*ids.Len + untilLen + 1
	seatLen  = 2 * ids.Len // of a link from a room
)

// claim is the content of a link.
type claim struct {
	id      ID
	variant variant
	user    accounts.ID // the user whose right to the file is checked
	until   time.Time

	room, viewer string // of a link from a room: the link also needs this viewer to be in the room
}

// variant selects the file of a link or one of its thumbnails.
type variant byte

// The values of variant.
const (
	whole    variant = 'w'
	smallest variant = 's' // the thumbnail with the smallest side
	largest  variant = 'l' // the thumbnail with the largest side
)

// variantFor returns the variant for a thumbnail's side; side 0 is the whole file. It returns ErrNoSmall for an unknown
// side.
func variantFor(side int) (variant, error) {
	switch side {
	case 0:
		return whole, nil
	case picture.Sides[len(picture.Sides)-1]:
		return smallest, nil
	case picture.Sides[0]:
		return largest, nil
	}
	return 0, ErrNoSmall
}

// side returns the longer side of the variant's thumbnail, in pixels.
func (v variant) side() int {
	if v == smallest {
		return picture.Sides[len(picture.Sides)-1]
	}
	return picture.Sides[0]
}

// mac returns the mac of a text, which has one of two fixed lengths.
func (s signer) mac(text string) string {
	h := hmac.New(sha256.New, s)
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(label))))
	h.Write([]byte(label + text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// label distinguishes links from other texts that the secret signs.
const label = "file link"

func (s signer) link(c claim) string {
	text := c.id.String() + c.user.String() + fmt.Sprintf("%0*s", untilLen, strconv.FormatInt(c.until.Unix(), 36)) + string(c.variant) +
		c.room + c.viewer
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
	c := claim{id: id, variant: variant(text[textLen-1]), user: user, until: time.Unix(seconds, 0).UTC()}
	if seat != "" {
		c.room, c.viewer = seat[:ids.Len], seat[ids.Len:]
	}
	return c, malformed == nil && malformedUser == nil && err == nil
}

// sameAs returns to if err is from, and err otherwise.
func sameAs(err, from, to error) error {
	if errors.Is(err, from) {
		return to
	}
	return err
}
