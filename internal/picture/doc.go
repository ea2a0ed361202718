// Package picture turns an uploaded image into a picture that is safe to
// store and to show: square, upright, in three sizes, encoded anew ([Studio.Square]); or
// into thumbnails of the same kind that keep its shape ([Studio.Look]).
//
// The bytes of an image tell what it is (nothing else is looked at): PNG,
// JPEG, GIF or WebP; of an animation the first frame is decoded. Nothing
// but pixels survives: no metadata (a phone writes where it was), no colour
// profile, nothing behind the image's end.
//
// # What an image may cost
//
// A file of some kilobytes can describe a billion pixels, and one of a megabyte can
// keep a decoder busy for minutes. So the size is read from the header and checked
// before anything is decoded, pictures take turns, the memory of all that are being
// made is bounded, and a decoder that is not done in time gets no more to read. Users have shares of
// the turns and of the queue, so one user's images do not delay those of others by more than one image.
package picture
