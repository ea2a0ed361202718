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

// maxVerdict bounds an answer before the fact: a message has 16 KiB of text at most, and 8 of data.
const maxVerdict = 64 << 10

// poster posts signed messages.
type poster struct {
	sign   *standardwebhooks.Webhook
	client *http.Client
}

func newPoster(sign *standardwebhooks.Webhook, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *poster {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64 // one host gets it all
	if dial != nil {
		t.DialContext, t.DialTLSContext = dial, nil
	}
	return &poster{sign, &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

var (
	// errUnreachable says that the target is away.
	errUnreachable = errors.New("the target is away")
	// errTorn says that the target answered 2xx, and what is behind that did not arrive whole.
	errTorn = errors.New("the target's answer did not arrive whole")
)

// errStatus is an answer that is no success.
type errStatus int

func (s errStatus) Error() string { return "the target answered " + strconv.Itoa(int(s)) }

// send posts a message and returns the answer's body.
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
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return nil, fmt.Errorf("%w: %w", errUnreachable, errStatus(status))
	case status < 200 || status > 299:
		return nil, errStatus(status)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errTorn, err)
	}
	return answer, nil
}

// unwrapped is an error of a request without its address, in which there may be a secret of the target's.
func unwrapped(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// tell posts a message to which any 2xx is an answer, whatever comes of what is behind it.
func (p *poster) tell(ctx context.Context, url string, e envelope) error {
	_, err := p.send(ctx, url, e)
	if errors.Is(err, errTorn) {
		return nil
	}
	return err
}

// ask posts a question and returns the verdict.
func (p *poster) ask(ctx context.Context, url string, e envelope) (v api.HookVerdict, err error) {
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
		return api.HookVerdict{}, fmt.Errorf("webhooks: the verdict is not understood: %w", err)
	}
	return v, nil
}
