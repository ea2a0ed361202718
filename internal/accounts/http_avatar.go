package accounts

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

var (
	// uploadLimit: scaling an image takes up to a few seconds of a core.
	uploadLimit = ratelimit.Limit{Max: 20, Window: time.Hour}
	// pictureLimit is per address, because a whole office may load its friend lists for the first time.
	pictureLimit = ratelimit.Limit{Max: 6000, Window: time.Minute}
)

// uploadTime allows 5 MiB at one megabit per second.
const uploadTime = 45 * time.Second

func (s *Service) avatarRoutes(a *web.API) {
	tags := []string{"people"}
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/me/avatar", ID: "me.avatar.set", Summary: "Upload the caller's picture",
		Tags: tags,
		Description: "PNG, JPEG, GIF (first frame) or still WebP, up to 5 MiB, 25 million pixels and 10,000 pixels per side. The bytes define " +
			"the type. The server stores the rotated center square in three sizes, without metadata.",
		MaxBody: picture.MaxBytes, BodyTime: uploadTime, Time: picture.Time, Limit: uploadLimit,
		Errors: []*errs.Error{picture.ErrUnreadable, picture.ErrDimensions, picture.ErrBusy}}, s.putAvatar)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/me/avatar", ID: "me.avatar.remove", Summary: "Remove the caller's picture",
		Tags:   tags,
		Status: http.StatusNoContent}, s.deleteAvatar)
	web.HandlePublic(a, web.Op{Method: http.MethodGet, Path: "/v1/avatars/{avatar}/{size}", ID: "avatars.get",
		Summary: "Get a picture in one size", Tags: tags,
		Description: "The content of an id never changes, so cache it without limit. With If-None-Match the response may be 304. The type is " +
			"JPEG, or PNG with transparency.",
		Limit: pictureLimit, MediaType: "image/*", Errors: []*errs.Error{ErrNoAvatar, ErrStore}}, s.getAvatar)
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
	Avatar      AvatarID `path:"avatar" unknown:"avatar.unknown" doc:"id of the picture"`
	Size        string   `path:"size" enum:"64,256,512" doc:"pixels on each side"`
	IfNoneMatch string   `header:"If-None-Match"`
}) (*web.Image, error) {
	size, _ := strconv.Atoi(in.Size) // the enum has checked it
	p, err := s.Avatar(ctx, in.Avatar, size)
	if err != nil {
		return nil, err
	}
	return web.NewImage(in.IfNoneMatch, fmt.Sprintf("%s-%d", in.Avatar, p.Size), p.Type, p.Data), nil
}
