package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket stores parts as objects of an S3 server. A part is one request of any size. Multipart uploads of S3 are not
// used, because they would need a cleanup.
type bucket struct {
	client *minio.Client
	host   string
	name   string
	prefix string // "" or ends with a slash

	silence time.Duration // the same as the constant silence, except in tests

	buffers sync.Pool
}

// silence bounds the time without a byte that the server accepts or sends.
const silence = 5 * time.Second

var errSilent = errors.New("the S3 server does not respond")

// progress cancels a request while its server is silent.
type progress struct {
	ctx    context.Context //nolint:containedctx // of one request
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer
}

// progress begins a request, which uses the context of the result. The caller must call end.
func (b *bucket) progress(ctx context.Context) *progress {
	p := &progress{limit: b.silence}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.timer = time.AfterFunc(p.limit, func() { p.cancel(errSilent) })
	return p
}

// made records progress: the server gets the whole limit again.
func (p *progress) made() { p.timer.Reset(p.limit) }

// pause stops the timer until the next made. It returns errSilent instead of an error that the silence caused.
func (p *progress) pause(err error) error {
	p.timer.Stop()
	if err != nil && context.Cause(p.ctx) == errSilent { //nolint:errorlint // set above
		return errSilent
	}
	return err
}

// end releases the request.
func (p *progress) end(err error) error {
	err = p.pause(err)
	p.cancel(nil)
	return err
}

func newBucket(u *url.URL) (*bucket, error) {
	name, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if prefix != "" {
		prefix += "/"
	}
	secret, _ := u.User.Password()
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(u.User.Username(), secret, ""), Secure: u.Query().Get("tls") != "false",
		Region: u.Query().Get("region"), MaxRetries: 3, // the client retries as well
	})
	if err != nil {
		return nil, err
	}
	return &bucket{silence: silence, client: client, host: u.Host, name: name, prefix: prefix, buffers: sync.Pool{New: func() any {
		return new(bytes.Buffer)
	}}}, nil
}

func (b *bucket) String() string { return "bucket " + b.name + " at " + b.host }
func (b *bucket) InMemory() bool { return true }
func (b *bucket) Close() error   { return nil }

func (b *bucket) Create(_ context.Context, name string) (Writing, error) {
	buf := b.buffers.Get().(*bytes.Buffer)
	buf.Reset()
	return &bucketPart{buf, b, name}, nil
}

func (b *bucket) Open(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	opt := minio.GetObjectOptions{}
	if err := opt.SetRange(from, from+n-1); err != nil {
		return nil, err
	}
	p := b.progress(ctx)
	r, _, _, err := minio.Core{Client: b.client}.GetObject(p.ctx, b.name, b.prefix+name, opt)
	if err != nil {
		return nil, p.end(err)
	}
	return object{r, p}, p.pause(nil)
}

// object is the body of an object. Its reader may wait between two reads.
type object struct {
	io.ReadCloser
	*progress
}

// Read implements io.Reader.
func (o object) Read(b []byte) (int, error) {
	o.made()
	n, err := o.ReadCloser.Read(b)
	return n, o.pause(err)
}

// Close implements io.Closer.
func (o object) Close() error { return o.end(o.ReadCloser.Close()) }

func (b *bucket) Remove(ctx context.Context, names ...string) error {
	var faults []error
	for _, name := range names { // not all servers accept many in one request
		p := b.progress(ctx)
		err := p.end(b.client.RemoveObject(p.ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
		faults = append(faults, err)
		if errors.Is(err, errSilent) {
			break
		}
	}
	return errors.Join(faults...)
}

// hasVersions reports whether the server has versioning enabled for the bucket. Some servers lack this request, or do
// not allow it.
func (b *bucket) hasVersions(ctx context.Context) bool {
	v, err := b.client.GetBucketVersioning(ctx, b.name)
	return err == nil && v.Enabled()
}

func (b *bucket) List(ctx context.Context, each func(name string) error) error {
	p := b.progress(ctx)
	defer p.cancel(nil) // ends the listing if each fails
	for o := range b.client.ListObjects(p.ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true}) {
		if err := p.pause(o.Err); err != nil {
			return err
		}
		if err := each(strings.TrimPrefix(o.Key, b.prefix)); err != nil {
			return err
		}
		p.made()
	}
	return p.pause(p.ctx.Err())
}

// bucketPart is an object in memory, because S3 needs its size before its bytes.
type bucketPart struct {
	buf  *bytes.Buffer
	in   *bucket
	name string
}

func (p *bucketPart) Write(b []byte) (int, error) { return p.buf.Write(b) }

func (p *bucketPart) Complete(ctx context.Context) error {
	defer p.Abort()
	sent := p.in.progress(ctx)
	_, err := p.in.client.PutObject(sent.ctx, p.in.name, p.in.prefix+p.name, sending{bytes.NewReader(p.buf.Bytes()), sent}, int64(p.buf.Len()),
		minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true})
	return sent.end(err)
}

// sending is a part on its way to the server. The client seeks to its start for a retry.
type sending struct {
	from io.ReadSeeker
	*progress
}

// Read implements io.Reader.
func (s sending) Read(b []byte) (int, error) {
	s.made()
	return s.from.Read(b)
}

// Seek implements io.Seeker.
func (s sending) Seek(offset int64, whence int) (int64, error) { return s.from.Seek(offset, whence) }

func (p *bucketPart) Abort() { p.in.buffers.Put(p.buf) }

// isBucketFull reports whether an S3 server has no space.
func isBucketFull(err error) bool {
	e, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (e.Code == "XMinioStorageFull" || e.Code == "QuotaExceeded" || e.Code == "EntityTooLarge" || e.StatusCode == 507)
}

// isObjectMissing reports whether an S3 server has no object of that name.
func isObjectMissing(err error) bool { return minio.ToErrorResponse(err).Code == minio.NoSuchKey }
