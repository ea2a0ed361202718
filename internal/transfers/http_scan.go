package transfers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// postScanner posts files to an address. A 2xx response passes a file, 422 refuses it, and any other response is an
// error.
type postScanner struct {
	url    string
	client *http.Client
}

func newPostScanner(url string) postScanner {
	return postScanner{url, &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (p postScanner) scan(ctx context.Context, t *Transfer, content io.Reader) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, content)
	if err != nil {
		return false, err
	}
	req.ContentLength = t.Size
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("X-Stoa-Transfer", t.ID.String())
	req.Header.Set("X-Stoa-Size", strconv.FormatInt(t.Size, 10))
	req.Header.Set("X-Stoa-Sha256", t.SHA256)
	resp, err := p.client.Do(req)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the address, which may have a secret of the scanner
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode/100 == 2:
		return true, nil
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return false, nil
	}
	return false, fmt.Errorf("the scanner returned %s", resp.Status)
}
