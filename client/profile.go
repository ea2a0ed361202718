package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/api"
)

// User returns a user's profile.
func (c *Client) User(ctx context.Context, id string) (out api.Profile, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/users/" + url.PathEscape(id), out: &out})
	return out, err
}

// Users returns the profiles of up to 100 users, in the order of their ids. Unknown users are omitted.
func (c *Client) Users(ctx context.Context, ids []string) ([]api.Profile, error) {
	var out api.Profiles
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/users", query: url.Values{"ids": {strings.Join(ids, ",")}}, out: &out})
	return out.Users, err
}

// FindByID returns the profile of a user who may be found by id.
func (c *Client) FindByID(ctx context.Context, id string) (api.Profile, error) {
	return c.find(ctx, url.Values{"id": {id}})
}

// FindByEmail returns the profile of a user who may be found by address.
func (c *Client) FindByEmail(ctx context.Context, email string) (api.Profile, error) {
	return c.find(ctx, url.Values{"email": {email}})
}

func (c *Client) find(ctx context.Context, query url.Values) (out api.Profile, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/users/search", query: query, out: &out})
	return out, err
}

// SetAvatar sets the caller's picture from a PNG, JPEG, GIF or WebP image, and returns its id.
func (c *Client) SetAvatar(ctx context.Context, image []byte) (out api.Avatar, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/me/avatar", in: raw(image), out: &out})
	return out, err
}

// RemoveAvatar removes the caller's picture.
func (c *Client) RemoveAvatar(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/me/avatar"})
}

// Avatar returns a picture in one of its sizes: 64, 256 or 512 pixels. It is a JPEG or a PNG.
func (c *Client) Avatar(ctx context.Context, id string, size int) ([]byte, error) {
	var out raw
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/avatars/" + url.PathEscape(id) + "/" + strconv.Itoa(size), out: &out, open: true})
	return out, err
}

// DrawCard returns the card that others scan to find the caller. It is the same card until it expires.
func (c *Client) DrawCard(ctx context.Context) (out api.Card, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/me/card", out: &out})
	return out, err
}

// Card returns the caller's current card. It fails with "card.not_drawn" if there is none.
func (c *Client) Card(ctx context.Context) (out api.Card, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/me/card", out: &out})
	return out, err
}

// CardPNG returns the caller's card as a QR code of 128 to 1024 pixels. With a zero size the server chooses the size.
func (c *Client) CardPNG(ctx context.Context, size int) ([]byte, error) {
	return c.cardPNG(ctx, "/v1/me/card.png", size)
}

func (c *Client) cardPNG(ctx context.Context, path string, size int) ([]byte, error) {
	query := url.Values{}
	if size != 0 {
		query.Set("size", strconv.Itoa(size))
	}
	var out raw
	err := c.do(ctx, call{method: http.MethodGet, path: path, query: query, out: &out})
	return out, err
}

// CardSVG returns the caller's card as a QR code.
func (c *Client) CardSVG(ctx context.Context) ([]byte, error) {
	var out raw
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/me/card.svg", out: &out})
	return out, err
}

// WithdrawCard revokes the caller's card.
func (c *Client) WithdrawCard(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/me/card"})
}

// CardOwner returns the profile of the owner of a card.
func (c *Client) CardOwner(ctx context.Context, token string) (out api.Profile, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/cards/" + url.PathEscape(token), out: &out})
	return out, err
}
