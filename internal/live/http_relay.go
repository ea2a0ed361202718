package live

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxAnswer is the largest size of another node's response.
const maxAnswer = 64 << 10

// relays is the HTTP client for requests to other nodes. It keeps no idle connections, because a relay sends one
// request.
var relays = &http.Client{Timeout: pullTime, Transport: &http.Transport{DisableKeepAlives: true, TLSHandshakeTimeout: 5 * time.Second},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// askNode sends an offer to another node and returns its answer. It returns ErrOffAir.
func askNode(ctx context.Context, url, token, offer string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(offer))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", sdp)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := relays.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusConflict:
		return "", ErrOffAir
	case resp.StatusCode != http.StatusCreated:
		return "", fmt.Errorf("live: the other node returned %s", resp.Status)
	}
	return string(answer), nil
}
