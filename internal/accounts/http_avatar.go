package accounts

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

var (
	// uploadLimit: an image takes a core for up to some seconds.
	uploadLimit = ratelimit.Limit{Max: 20, Window: time.Hour}
	// pictureLimit is for an address, behind which a whole office may open its
	// lists of friends for the first time.
	pictureLimit = ratelimit.Limit{Max: 6000, Window: time.Minute}
)

// uploadTime lets 5 MiB arrive over a megabit a second.
const uploadTime = 45 * time.Second

func (s *Service) avatarRoutes(a *web.API) {
	tags := []string{"people"}
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/me/avatar", ID: "me.avatar.set", Summary: "Upload the caller's picture", Tags: tags,
		Description: "PNG, JPEG, GIF (the first frame) or WebP (not moving), up to 5 MiB, 25 million pixels and 10,000 on a side. What it is, its bytes say. The middle is kept, upright, in three sizes; metadata is not.",
		MaxBody:     picture.MaxBytes, BodyTime: uploadTime, Time: picture.Time, Limit: uploadLimit,
		Errors: []*errs.Error{picture.ErrUnreadable, picture.ErrDimensions, picture.ErrBusy}}, s.putAvatar)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/me/avatar", ID: "me.avatar.remove", Summary: "Remove the caller's picture", Tags: tags,
		Status: http.StatusNoContent}, s.deleteAvatar)
	web.HandlePublic(a, web.Op{Method: http.MethodGet, Path: "/v1/avatars/{avatar}/{size}", ID: "avatars.get", Summary: "One size of a picture", Tags: tags,
		Description: "What an id stands for never changes: keep it for as long as you like. With If-None-Match the answer may be 304. JPEG, or PNG when something shows through.",
		Limit:       pictureLimit, Answer: "image/*", Errors: []*errs.Error{ErrNoAvatar, ErrStore}}, s.getAvatar)
}

func (s *Service) putAvatar(ctx context.Context, caller Caller, in *struct {
	RawBody []byte `contentType:"image/*"`
}) (*web.Body[api.Avatar], error) {
	id, err := s.SetAvatar(ctx, caller.User, in.RawBody)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.Avatar{Avatar: id.String()}), nil
}

func (s *Service) deleteAvatar(ctx context.Context, caller Caller, _ *web.Empty) (*web.Empty, error) {
	return &web.Empty{}, s.RemoveAvatar(ctx, caller.User)
}

func (s *Service) getAvatar(ctx context.Context, in *struct {
	Avatar  string `path:"avatar" doc:"the picture's id"`
	Size    string `path:"size" enum:"64,256,512" doc:"pixels on each side"`
	IfMatch string `header:"If-None-Match"`
}) (*web.Image, error) {
	id, err := ids.Parse[picture.Picture](in.Avatar)
	size, _ := strconv.Atoi(in.Size) // one of the enum
	if err != nil {
		return nil, ErrNoAvatar
	}
	p, err := s.Avatar(ctx, id, size)
	if err != nil {
		return nil, err
	}
	return web.NewImage(in.IfMatch, fmt.Sprintf("%s-%d", id, p.Size), p.Type, p.Data), nil
}
