package live

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxAnswer bounds what another node answers.
const maxAnswer = 64 << 10

// relays is how nodes ask each other. It keeps no connections: a relay asks once.
var relays = &http.Client{Timeout: pullTime, Transport: &http.Transport{DisableKeepAlives: true, TLSHandshakeTimeout: 5 * time.Second},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// askNode brings an offer to where another node is watched, and returns the answer. ErrOffAir.
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
		return "", fmt.Errorf("live: the other node answers %s", resp.Status)
	}
	return string(answer), nil
}
