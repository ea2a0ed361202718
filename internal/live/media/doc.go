// Package media carries pictures and sound of live streams, over WebRTC: what a publisher sends comes to a
// [Source], which hands it to each [Viewer], and to a [Recorder]. It knows neither users nor streams.
//
// # What is forwarded
//
// RTP as it came: VP8 or H.264, and Opus. Nothing is decoded or encoded, so that viewers see the publisher's
// bitrate and resolution, and a viewer whose player knows another codec only sees nothing. Sequence numbers stay
// those of the publisher.
//
// # Late joiners
//
// A source keeps the group of pictures that is under way: the last key frame and what followed ([gop]). A
// viewer gets it at once, with timestamps that lie a millisecond apart and end at the newest picture, so that the player
// shows the newest one as soon as it has decoded the others. Where the group is too large to be kept, the
// publisher is asked for a key frame (PLI), and the viewer gets pictures from it on.
//
// # Slow viewers
//
// Each viewer has a queue and a goroutine: no viewer holds up another, or the publisher. What does not
// fit into the queue is lost to this viewer, who gets pictures again from the next key frame on.
//
// # Ports
//
// All sessions of an [Engine] share one UDP port. Without a host that is a socket for each address of the machine, and [Engine.Look] is for
// addresses that come and go.
package media
