// Package picture converts an uploaded image to pictures that are safe to store and to show: square, upright and
// encoded again in three sizes ([Studio.Square]), or as thumbnails that keep the image's shape ([Studio.Describe]).
//
// The bytes of an image determine its type: PNG, JPEG, GIF or WebP. Of an animation the first frame is decoded. Only
// pixels survive: metadata (such as a phone's location), colour profiles and data after the image's end are dropped.
//
// # Limits
//
// A file of a few kilobytes can describe a billion pixels, and one of a megabyte can occupy a decoder for minutes. So
// the size in the header is checked before decoding. Images are processed in turns, and their total memory is
// bounded. A decoder that exceeds its time gets no more input. Each user has a share of the turns and of the queue,
// so that one user's images delay those of others by at most one image.
package picture
