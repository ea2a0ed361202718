package groups

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Limits, the same as for avatars.
var (
	uploadLimit  = ratelimit.Limit{Max: 20, Window: time.Hour}
	pictureLimit = ratelimit.Limit{Max: 6000, Window: time.Minute}
)

// uploadTime is enough for 5 MiB at one megabit a second.
const uploadTime = 45 * time.Second

func (s *Service) pictureRoutes(a *web.API, tags []string) {
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/groups/{group}/picture", ID: "groups.set_picture", Tags: tags,
		Summary:     "Upload a group's picture",
		Description: "Only admins can do this. The rules for the image are the same as for the caller's own picture (me.avatar.set).",
		MaxBody:     picture.MaxBytes, BodyTime: uploadTime, Time: picture.Time, Limit: uploadLimit,
		Errors: []*errs.Error{ErrGroup, ErrMay, picture.ErrUnreadable, picture.ErrDimensions, picture.ErrBusy, ErrStore}}, s.putPicture)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/groups/{group}/picture", ID: "groups.remove_picture", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Remove a group's picture", Errors: []*errs.Error{ErrGroup, ErrMay, ErrStore}}, s.deletePicture)
	web.HandlePublic(a, web.Op{Method: http.MethodGet, Path: "/v1/group-pictures/{picture}/{size}", ID: "group_pictures.get", Tags: tags,
		Summary: "Get a group's picture by size",
		Description: "The content of an id never changes, so cache it without limit. With If-None-Match the response may be 304. The type is " +
			"JPEG, or PNG with transparency.",
		Limit: pictureLimit, MediaType: "image/*", Errors: []*errs.Error{ErrPicture, ErrStore}}, s.getPicture)
}

func (s *Service) putPicture(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	RawBody []byte `contentType:"image/*"`
}) (*web.Body[api.GroupMembership], error) {
	g, me, err := s.SetPicture(ctx, caller.User, in.Group, in.RawBody)
	return web.NewBody(membershipWire(g, &me)), err
}

func (s *Service) deletePicture(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Empty, error) {
	return &web.Empty{}, s.RemovePicture(ctx, caller.User, in.Group)
}

func (s *Service) getPicture(ctx context.Context, in *struct {
	Picture     PictureID `path:"picture" unknown:"group.picture_unknown" doc:"the picture's id"`
	Size        string    `path:"size" enum:"64,256,512" doc:"pixels on each side"`
	IfNoneMatch string    `header:"If-None-Match"`
}) (*web.Image, error) {
	size, _ := strconv.Atoi(in.Size) // one of the enum
	p, err := s.Picture(ctx, in.Picture, size)
	if err != nil {
		return nil, err
	}
	return web.NewImage(in.IfNoneMatch, fmt.Sprintf("%s-%d", in.Picture, p.Size), p.Type, p.Data), nil
}
