package webhooks

import (
	"bytes"
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

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stoa-dev/stoa/api"
)

// maxVerdict is the largest response before the fact, in bytes: a message has at most 16 KiB of text and 8 KiB of
// data.
const maxVerdict = 64 << 10

// poster posts signed messages.
type poster struct {
	sign   *standardwebhooks.Webhook
	client *http.Client
}

func newPoster(sign *standardwebhooks.Webhook, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *poster {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64 // one host gets all requests
	if dial != nil {
		t.DialContext, t.DialTLSContext = dial, nil
	}
	return &poster{sign, &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

var (
	// errUnreachable means that the target is unavailable.
	errUnreachable = errors.New("webhooks: the target is unavailable")
	// errTorn means that the target responded with 2xx, but its body was incomplete.
	errTorn = errors.New("webhooks: the target's response is incomplete")
)

// errStatus is a response that is not 2xx.
type errStatus int

func (s errStatus) Error() string { return "the target responded with " + strconv.Itoa(int(s)) }

// send posts a message and returns the response's body.
func (p *poster) send(ctx context.Context, url string, e envelope) ([]byte, error) {
	body, err := e.message()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	signature, err := p.sign.Sign(e.ID, now, body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Stoa")
	req.Header.Set("webhook-id", e.ID)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", signature)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreachable, unwrapped(err))
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxVerdict+1))
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout:
		return nil, fmt.Errorf("%w: %w", errUnreachable, errStatus(status))
	case status < 200 || status > 299:
		return nil, errStatus(status)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errTorn, err)
	}
	return answer, nil
}

// unwrapped returns the error of a request without its URL, which may contain a secret.
func unwrapped(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// post posts a message. Any 2xx acknowledges it, even if the body is incomplete.
func (p *poster) post(ctx context.Context, url string, e envelope) error {
	_, err := p.send(ctx, url, e)
	if errors.Is(err, errTorn) {
		return nil
	}
	return err
}

// verdict posts a question and returns the verdict.
func (p *poster) verdict(ctx context.Context, url string, e envelope) (v api.HookVerdict, err error) {
	answer, err := p.send(ctx, url, e)
	switch {
	case err != nil:
		return v, err
	case len(answer) > maxVerdict:
		return v, errors.New("webhooks: the verdict is too long")
	case len(bytes.TrimSpace(answer)) == 0:
		return v, nil
	}
	if err := json.Unmarshal(answer, &v); err != nil {
		return api.HookVerdict{}, fmt.Errorf("webhooks: the verdict is malformed: %w", err)
	}
	return v, nil
}
