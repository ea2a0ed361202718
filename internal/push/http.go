package push

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// subscribeLimit is more than a browser needs, and too little to try out many addresses.
var subscribeLimit = ratelimit.Limit{Max: 30, Window: time.Minute}

// Routes adds the domain's operations to a.
func (s *Service) Routes(a *web.API) {
	tags := []string{"notices"}
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/push/key", ID: "push.key", Tags: tags,
		Summary: "Get the key for push subscriptions", Errors: []*errs.Error{ErrStore}}, s.getKey)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/push", ID: "push.get", Tags: tags,
		Summary: "Get the push settings", Errors: []*errs.Error{ErrStore}}, s.getStatus)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/push", ID: "push.set", Tags: tags, Status: http.StatusOK,
		Summary: "Update the push settings",
		Description: "A muted chat is never pushed, and a group follows its notification setting. " +
			"A push has the text of a message only with previews.",
		Errors: []*errs.Error{ErrStore}}, s.patchStatus)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/push/subscription", ID: "push.subscribe", Tags: tags, Status: http.StatusOK,
		Limit:   subscribeLimit,
		Summary: "Subscribe this device to pushes",
		Description: "Pushes are sent while none of the caller's devices is online. The body is the result of PushSubscription.toJSON. The " +
			"subscription ends with the session of the device. Taking over the endpoint of another device needs the same keys.",
		Errors: []*errs.Error{ErrEndpoint, ErrKeys, ErrStore}}, s.putSubscription)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/push/subscription", ID: "push.unsubscribe", Tags: tags, Status: http.StatusOK,
		Summary: "Unsubscribe this device from pushes", Errors: []*errs.Error{ErrStore}}, s.deleteSubscription)
}

func (s *Service) getKey(ctx context.Context, _ accounts.Caller, _ *web.Empty) (*web.Body[api.PushKey], error) {
	k, err := s.Key(ctx)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.PushKey{Key: k}), nil
}

func (s *Service) getStatus(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.PushStatus], error) {
	st, err := s.Status(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.PushStatus{Subscribed: slices.Contains(st.Devices, caller.Device), Devices: len(st.Devices),
		Messages: st.Messages, Requests: st.Requests, Notices: st.Notices, Previews: st.Previews}), nil
}

func (s *Service) patchStatus(ctx context.Context, caller accounts.Caller,
	in *web.Body[api.PushUpdate]) (*web.Body[api.PushStatus], error) {
	if err := s.Choose(ctx, caller.User, Update(in.Body)); err != nil {
		return nil, err
	}
	return s.getStatus(ctx, caller, nil)
}

func (s *Service) putSubscription(ctx context.Context, caller accounts.Caller,
	in *web.Body[api.PushSubscription]) (*web.Body[api.PushStatus], error) {
	if err := s.Subscribe(ctx, Subscription{User: caller.User, Device: caller.Device, Endpoint: in.Body.Endpoint, P256DH: in.Body.Keys.P256DH,
		Auth: in.Body.Keys.Auth}); err != nil {
		return nil, err
	}
	return s.getStatus(ctx, caller, nil)
}

func (s *Service) deleteSubscription(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.PushStatus], error) {
	if err := s.Unsubscribe(ctx, caller.User, caller.Device); err != nil {
		return nil, err
	}
	return s.getStatus(ctx, caller, nil)
}
