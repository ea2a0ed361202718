package client

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// SendFile uploads a file and sends it to a chat. The upload survives broken connections, as with [Client.Upload]. When
// SendFile returns without an error, the message is durable.
func (c *Client) SendFile(ctx context.Context, chat, name string, file io.ReadSeeker) (api.Sent, error) {
	return c.SendMedia(ctx, chat, api.Content{Kind: api.MessageFile}, name, file)
}

// SendMedia is SendFile with more content. The kind is image, voice or file, and the media may have alt, waveform and
// duration.
func (c *Client) SendMedia(ctx context.Context, chat string, content api.Content, name string,
	file io.ReadSeeker) (out api.Sent, err error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return out, err
	}
	id, err := c.UploadForMessages(ctx, api.TransferOffer{Name: name, Size: size}, readerAt(file))
	if err != nil {
		return out, err
	}
	media := api.Media{}
	if content.Media != nil {
		media = *content.Media
	}
	media.File = id
	content.Media = &media
	return c.Send(ctx, chat, api.Send{ClientID: crand.Text(), Content: content})
}

// UploadForMessages uploads a file for messages. It returns the file's id, for the File of [api.Media], after the
// upload is complete and the server has checked the file. A file that no message refers to within a day is deleted.
func (c *Client) UploadForMessages(ctx context.Context, offer api.TransferOffer, file io.ReaderAt) (id string, err error) {
	offer.To = ""
	begun, err := c.OfferFile(ctx, offer)
	if err != nil {
		return "", err
	}
	if err := c.Upload(ctx, begun.ID, file, offer.Size); err != nil {
		return "", err
	}
	for wait := c.wait; ; wait = min(2*wait, 5*time.Second) { // a scanner may check it
		switch t, err := c.Transfer(ctx, begun.ID); {
		case err != nil:
			return "", err
		case t.Status == api.TransferDone:
			return begun.ID, nil
		case t.Status == api.TransferFailed:
			return "", fmt.Errorf("upload of %s: it has failed: %s", begun.ID, t.Reason)
		}
		if err := sleep(ctx, wait); err != nil {
			return "", err
		}
	}
}

// MessageFileLink returns a link to a message's file, or to its thumbnail of that side length; 0 means the file. The
// link is valid for some minutes.
func (c *Client) MessageFileLink(ctx context.Context, chat string, seq int64, side int) (out api.FileLink, err error) {
	query := url.Values{}
	if side > 0 {
		query.Set("side", strconv.Itoa(side))
	}
	err = c.do(ctx, call{method: http.MethodPost, path: messagePath(chat, seq, "/file"), query: query, out: &out})
	return out, err
}

// FetchFile writes the file of a message, or its thumbnail, to w from a byte offset. It returns the number of bytes
// written: after an error, call it again from there.
func (c *Client) FetchFile(ctx context.Context, chat string, seq int64, side int, from int64, w io.Writer) (n int64, err error) {
	link, err := c.MessageFileLink(ctx, chat, seq, side)
	if err != nil {
		return 0, err
	}
	return c.follow(ctx, link, from, w)
}

// readerAt returns a reader at offsets, for one caller at a time.
func readerAt(file io.ReadSeeker) io.ReaderAt {
	if r, ok := file.(io.ReaderAt); ok {
		return r
	}
	return seeking{file}
}

type seeking struct{ io.ReadSeeker }

// ReadAt implements io.ReaderAt, for one caller at a time.
func (s seeking) ReadAt(b []byte, at int64) (int, error) {
	if _, err := s.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(s, b)
	if err == io.ErrUnexpectedEOF { //nolint:errorlint // io.ReadFull's own
		err = io.EOF
	}
	return n, err
}
