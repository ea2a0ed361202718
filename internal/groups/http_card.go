package groups

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/qr"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

func (s *Service) cardRoutes(a *web.API, tags []string) {
	refusals := []*errs.Error{ErrGroup, ErrMay, ErrStore}
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/groups/{group}/card", ID: "groups.card_draw", Tags: tags,
		Summary: "Draw a group's card",
		Description: "Only members who may invite can draw it. A card is an invite link that expires after 48 hours; until then, this " +
			"operation returns the same card. It is listed and revoked like other links. A card also ends when its creator may no longer invite.",
		NoReplay: true, Errors: refusals}, s.postCard)
	refusals = append(refusals, accounts.ErrNotDrawn)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}/card", ID: "groups.card", Tags: tags,
		Summary: "Get the group's card", Errors: refusals}, s.getCard)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}/card.png", ID: "groups.card_png", Tags: tags,
		MediaType: "image/png",
		Summary:   "Get the card as PNG", Errors: refusals}, s.getCardPNG)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}/card.svg", ID: "groups.card_svg", Tags: tags,
		MediaType: "image/svg+xml",
		Summary:   "Get the card as SVG", Errors: refusals}, s.getCardSVG)
}

// card returns the group's card from get. The text of its QR code is a link to this server's page, with the host that
// the caller used.
func (s *Service) card(ctx context.Context, caller accounts.Caller, in *GroupPath,
	get func(context.Context, accounts.ID, ID) (Link, error)) (c api.Card, err error) {
	l, err := get(ctx, caller.User, in.Group)
	if err != nil {
		return c, err
	}
	token := l.ID.String()
	return api.Card{Token: token, URL: web.Origin(ctx) + "/#/join/" + token,
		ExpiresIn: int(sqldb.Time(l.Expires).Sub(s.db.Now()).Seconds())}, nil
}

func (s *Service) postCard(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Body[api.Card], error) {
	c, err := s.card(ctx, caller, in, s.DrawCard)
	return web.NewBody(c), err
}

func (s *Service) getCard(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Body[api.Card], error) {
	c, err := s.card(ctx, caller, in, s.Card)
	return web.NewBody(c), err
}

func (s *Service) getCardPNG(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	Size int `query:"size" minimum:"128" maximum:"1024" default:"512" doc:"pixels on each side"`
}) (*web.Drawn, error) {
	code, err := s.code(ctx, caller, &in.GroupPath)
	if err != nil {
		return nil, err
	}
	image, err := code.PNG(in.Size)
	return web.NewDrawn("image/png", image), err
}

func (s *Service) getCardSVG(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Drawn, error) {
	code, err := s.code(ctx, caller, in)
	if err != nil {
		return nil, err
	}
	return web.NewDrawn("image/svg+xml", code.SVG()), nil
}

func (s *Service) code(ctx context.Context, caller accounts.Caller, in *GroupPath) (qr.Code, error) {
	c, err := s.card(ctx, caller, in, s.Card)
	if err != nil {
		return qr.Code{}, err
	}
	return qr.New(c.URL)
}
