package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// OfferFile offers a file to another user. After the user has accepted, [Client.Upload] sends it.
func (c *Client) OfferFile(ctx context.Context, in api.TransferOffer) (out api.Transfer, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/transfers", in: in, out: &out})
	return out, err
}

// Transfers returns a page of the caller's transfers, newest first. cursor is the Next of the previous page.
func (c *Client) Transfers(ctx context.Context, cursor string) (out api.Transfers, err error) {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/transfers", query: query, out: &out})
	return out, err
}

func transferPath(id, rest string) string { return "/v1/transfers/" + url.PathEscape(id) + rest }

// Transfer returns one of the caller's transfers and its progress.
func (c *Client) Transfer(ctx context.Context, id string) (out api.Transfer, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: transferPath(id, ""), out: &out})
	return out, err
}

// AcceptTransfer accepts a file that is offered to the caller.
func (c *Client) AcceptTransfer(ctx context.Context, id string) (out api.Transfer, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: transferPath(id, "/accept"), out: &out})
	return out, err
}

// RejectTransfer rejects a file that is offered to the caller.
func (c *Client) RejectTransfer(ctx context.Context, id string) (out api.Transfer, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: transferPath(id, "/reject"), out: &out})
	return out, err
}

// CancelTransfer cancels a transfer, or deletes the file of a completed one.
func (c *Client) CancelTransfer(ctx context.Context, id string) (out api.Transfer, err error) {
	err = c.do(ctx, call{method: http.MethodDelete, path: transferPath(id, ""), out: &out})
	return out, err
}

// FileLink returns a link to the file of a completed transfer. The link is valid for some minutes.
func (c *Client) FileLink(ctx context.Context, id string) (out api.FileLink, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: transferPath(id, "/link"), out: &out})
	return out, err
}

// mostInOne is the largest body of one request, because proxies may limit a body to 100 MB.
const mostInOne = 64 << 20

// Upload sends the file of an accepted transfer from the current offset. If the connection breaks, or the server is
// unavailable or overloaded, it gets the offset and resumes. It gives up after six tries in a row without progress. It
// returns when the whole file is stored; a scanner may still check it.
func (c *Client) Upload(ctx context.Context, id string, file io.ReaderAt, size int64) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("upload of %s: %w", id, err)
		}
	}()
	last, wait := int64(-1), c.wait
	for n := 1; ; n++ {
		var at int64
		at, err = c.tus(ctx, http.MethodHead, id, 0, nil, 0)
		if err == nil && at > last {
			last, n, wait = at, 1, c.wait
		}
		if err == nil && at < size {
			length := min(size-at, mostInOne)
			at, err = c.tus(ctx, http.MethodPatch, id, at, io.NewSectionReader(file, at, length), length)
		}
		if err == nil && at == size {
			return nil
		}
		e, passes := passing(err)
		refused := e != nil
		again := err == nil || errors.Is(err, ErrUnreachable) || passes || refused && (e.Code == "transfer.offset" || e.Code == "transfer.cut")
		if !again || n == maxTries {
			return err
		}
		if err == nil && at > last { // the next piece; the HEAD request before it may renew the token
			continue
		}
		pause := wait/2 + rand.N(wait/2)
		if refused {
			pause = max(pause, e.RetryAfter)
		}
		if sleep(ctx, pause) != nil {
			return err
		}
		wait *= 2
	}
}

// tus sends a request of the tus protocol, and returns the offset of the upload.
func (c *Client) tus(ctx context.Context, method, id string, at int64, body io.Reader, length int64) (int64, error) {
	for renewed := false; ; renewed = true {
		call := call{method: method, path: transferPath(id, "/upload")}
		req, err := c.request(ctx, &call, nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("Tus-Resumable", "1.0.0")
		if body != nil {
			req.Body, req.ContentLength = io.NopCloser(body), length
			req.Header.Set("Content-Type", "application/offset+octet-stream")
			req.Header.Set("Upload-Offset", strconv.FormatInt(at, 10))
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return 0, unreachable(ctx, err)
		}
		if resp.StatusCode < 300 {
			stands, err := strconv.ParseInt(resp.Header.Get("Upload-Offset"), 10, 64)
			return stands, errors.Join(err, resp.Body.Close())
		}
		err = refusal(resp, time.Now())
		_ = resp.Body.Close() // the refusal has been read
		if resp.StatusCode != http.StatusUnauthorized || renewed || body != nil {
			return 0, err
		}
		if ok, rerr := c.renew(ctx, call.bearer); rerr != nil || !ok {
			return 0, errors.Join(err, rerr)
		}
	}
}

// Download writes the file of a completed transfer to w from a byte offset. It returns the number of bytes written:
// after an error, call it again from there.
func (c *Client) Download(ctx context.Context, id string, from int64, w io.Writer) (n int64, err error) {
	link, err := c.FileLink(ctx, id)
	if err != nil {
		return 0, err
	}
	return c.follow(ctx, link, from, w)
}

// follow writes the target of a link to w from a byte offset.
func (c *Client) follow(ctx context.Context, link api.FileLink, from int64, w io.Writer) (n int64, err error) {
	call := call{method: http.MethodGet, path: strings.TrimSuffix(link.URL, "/"), open: true, out: new(raw)}
	req, err := c.request(ctx, &call, nil)
	if err != nil {
		return 0, err
	}
	if from > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(from, 10)+"-")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, unreachable(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 300:
		return 0, refusal(resp, time.Now())
	case from > 0 && resp.StatusCode != http.StatusPartialContent:
		return 0, errors.New("the server does not go on from there")
	}
	n, err = io.Copy(w, resp.Body)
	if err != nil {
		err = unreachable(ctx, err)
	}
	return n, err
}
