package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	webpush "github.com/SherClockHolmes/webpush-go"

	"github.com/stoa-dev/stoa/api"
)

// Transport sends requests to push services.
type Transport = http.RoundTripper

// poster sends requests to push services.
type poster struct{ *http.Client }

// newPoster returns a poster on a transport; nil connects only to public addresses, unless private is set.
func newPoster(transport Transport, private bool) poster {
	if transport == nil {
		transport = &http.Transport{DialContext: dialer(private), ForceAttemptHTTP2: true, MaxIdleConnsPerHost: perHost,
			IdleConnTimeout:     time.Minute,
			TLSHandshakeTimeout: requestTime, ResponseHeaderTimeout: requestTime, MaxResponseHeaderBytes: 16 << 10}
	}
	return poster{&http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// post sends the request and returns its outcome.
func (s *Service) post(ctx context.Context, d delivery) (outcome string, err error) {
	host, now := hostOf(d.sub), s.db.Now()
	k, err := s.signing(ctx)
	if err != nil {
		return failed, err
	}
	text, err := json.Marshal(d.push)
	if err != nil {
		return failed, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	urgency := webpush.UrgencyNormal
	if d.push.What == api.PushMessages {
		urgency = webpush.UrgencyHigh
	}
	res, err := webpush.SendNotificationWithContext(ctx, text,
		&webpush.Subscription{Endpoint: d.sub.Endpoint, Keys: webpush.Keys{P256dh: d.sub.P256DH, Auth: d.sub.Auth}},
		&webpush.Options{HTTPClient: s.http.Client, Subscriber: s.contact, Topic: topicOf(d.push.Tag), TTL: int(life.Seconds()), Urgency: urgency,
			VAPIDPublicKey: k.public, VAPIDPrivateKey: k.private})
	if err != nil {
		var wait net.Error
		switch {
		case errors.Is(err, errPrivate): // the user who gave such an address gets no detail
			return ended, asKind(deleteEndpoint(context.WithoutCancel(ctx), s.db, d.sub))
		case errors.As(err, &wait) && wait.Timeout() || errors.Is(err, context.DeadlineExceeded):
			return postponed, later{s.hosts.pause(host, now, pauseTime)}
		}
		return failed, fmt.Errorf("%w: %w", errRefused, unwrapped(err))
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // allows reuse of the connection
	_ = res.Body.Close()
	s.hosts.well(host)
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return sent, nil
	case code == http.StatusNotFound || code == http.StatusGone:
		return ended, asKind(deleteEndpoint(context.WithoutCancel(ctx), s.db, d.sub))
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // a date counts as 0
		return postponed, later{s.hosts.pause(host, now, time.Duration(seconds)*time.Second)}
	default:
		return failed, fmt.Errorf("%w: status %d", errRefused, code)
	}
}

// unwrapped removes the address from an error, because it is a secret of the browser.
func unwrapped(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

func hostOf(sub Subscription) string {
	u, err := url.Parse(sub.Endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}
