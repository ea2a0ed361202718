package accounts

import (
	"context"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/qr"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// scanLimit is enough for a person at a fair. Guessing is impossible without it, too: a token has 128 random bits.
var scanLimit = ratelimit.Limit{Max: 120, Window: time.Hour}

func (s *Service) cardRoutes(a *web.API) {
	tags := []string{"people"}
	none := []*errs.Error{ErrNotDrawn}
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/me/card", ID: "me.card.draw", Summary: "Draw the caller's card", Tags: tags,
		Description: "A card expires after 48 hours. Until then this returns the same card.", NoReplay: true}, s.postMyCard)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me/card", ID: "me.card.get", Summary: "Get the caller's card", Tags: tags,
		Errors: none}, s.getMyCard)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me/card.png", ID: "me.card.png", Summary: "Get the card as PNG", Tags: tags,
		MediaType: "image/png", Errors: none}, s.getMyCardPNG)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me/card.svg", ID: "me.card.svg", Summary: "Get the card as SVG", Tags: tags,
		MediaType: "image/svg+xml", Errors: none}, s.getMyCardSVG)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/me/card", ID: "me.card.withdraw", Summary: "Withdraw the caller's card",
		Tags:   tags,
		Status: http.StatusNoContent}, s.deleteMyCard)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/cards/{token}", ID: "cards.get", Summary: "Get the owner of a card", Tags: tags,
		Limit: scanLimit, Errors: []*errs.Error{ErrNoCard}}, s.getCard)
}

// wireCard returns a card in the format of the API. Its URL is a link to the page at the origin of the request. The
// link is not stored, so that it stays valid after the server moves to another name.
func (s *Service) wireCard(ctx context.Context, c Card) api.Card {
	token := s.CardToken(c)
	return api.Card{Token: token, URL: web.Origin(ctx) + "/#/card/" + token, ExpiresIn: int(c.Expires.Sub(s.db.Now()).Seconds())}
}

func (s *Service) postMyCard(ctx context.Context, caller Caller, _ *web.Empty) (*web.Body[api.Card], error) {
	c, err := s.DrawCard(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	return web.NewBody(s.wireCard(ctx, c)), nil
}

func (s *Service) getMyCard(ctx context.Context, caller Caller, _ *web.Empty) (*web.Body[api.Card], error) {
	c, err := s.Card(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	return web.NewBody(s.wireCard(ctx, c)), nil
}

func (s *Service) myCode(ctx context.Context, owner ID) (qr.Code, error) {
	c, err := s.Card(ctx, owner)
	if err != nil {
		return qr.Code{}, err
	}
	return qr.New(s.wireCard(ctx, c).URL)
}

func (s *Service) getMyCardPNG(ctx context.Context, caller Caller, in *struct {
	Size int `query:"size" minimum:"128" maximum:"1024" default:"512" doc:"pixels on each side"`
}) (*web.Drawn, error) {
	c, err := s.myCode(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	image, err := c.PNG(in.Size)
	return web.NewDrawn("image/png", image), err
}

func (s *Service) getMyCardSVG(ctx context.Context, caller Caller, _ *web.Empty) (*web.Drawn, error) {
	c, err := s.myCode(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	return web.NewDrawn("image/svg+xml", c.SVG()), nil
}

func (s *Service) deleteMyCard(ctx context.Context, caller Caller, _ *web.Empty) (*web.Empty, error) {
	return &web.Empty{}, s.WithdrawCard(ctx, caller.User)
}

func (s *Service) getCard(ctx context.Context, _ Caller, in *struct {
	Token string `path:"token" doc:"token of the card"`
}) (*web.Body[api.Profile], error) {
	owner, err := s.CardOwner(ctx, in.Token)
	if err != nil {
		return nil, err
	}
	return profile(s.Profile(ctx, owner))
}
