package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket keeps parts as objects of an S3 server. A part is one request: there are no
// uploads of the server's own kind, which would have to be looked after, and a part may
// have any size.
type bucket struct {
	client *minio.Client
	host   string
	name   string
	prefix string // "" or ends with a slash

	buffers sync.Pool
}

func newBucket(u *url.URL) (*bucket, error) {
	name, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if prefix != "" {
		prefix += "/"
	}
	secret, _ := u.User.Password()
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(u.User.Username(), secret, ""), Secure: u.Query().Get("tls") != "false",
		Region: u.Query().Get("region"), MaxRetries: 3, // the user's program tries again as well
	})
	if err != nil {
		return nil, err
	}
	return &bucket{client: client, host: u.Host, name: name, prefix: prefix, buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }}}, nil
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
	r, _, _, err := minio.Core{Client: b.client}.GetObject(ctx, b.name, b.prefix+name, opt)
	return r, err
}

func (b *bucket) Remove(ctx context.Context, names ...string) error {
	var faults []error
	for _, name := range names { // not all servers take many in one request
		faults = append(faults, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
	}
	return errors.Join(faults...)
}

// keepsVersions reports that the server says so of the bucket; not all servers know, or let everybody ask.
func (b *bucket) keepsVersions(ctx context.Context) bool {
	v, err := b.client.GetBucketVersioning(ctx, b.name)
	return err == nil && v.Enabled()
}

func (b *bucket) List(ctx context.Context, each func(name string) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the listing where each fails
	defer cancel()
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true}) {
		if o.Err != nil {
			return o.Err
		}
		if err := each(strings.TrimPrefix(o.Key, b.prefix)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// bucketPart is an object that is being written: S3 wants to know its size first.
type bucketPart struct {
	buf  *bytes.Buffer
	in   *bucket
	name string
}

func (p *bucketPart) Write(b []byte) (int, error) { return p.buf.Write(b) }

func (p *bucketPart) Keep(ctx context.Context) error {
	defer p.Abort()
	_, err := p.in.client.PutObject(ctx, p.in.name, p.in.prefix+p.name, bytes.NewReader(p.buf.Bytes()), int64(p.buf.Len()),
		minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true})
	return err
}

func (p *bucketPart) Abort() { p.in.buffers.Put(p.buf) }

// isBucketFull reports that an S3 server has no room.
func isBucketFull(err error) bool {
	e, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (e.Code == "XMinioStorageFull" || e.Code == "QuotaExceeded" || e.Code == "EntityTooLarge" || e.StatusCode == 507)
}

// isObjectMissing reports that an S3 server has no object of that name.
func isObjectMissing(err error) bool { return minio.ToErrorResponse(err).Code == minio.NoSuchKey }
