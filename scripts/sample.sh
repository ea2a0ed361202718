#!/bin/sh
# Creates web/public/sample.webm, the sample video for rooms on every server. It shows one minute of colours, a bar with
# the progress, and the second as a number. It needs ffmpeg with libvpx and the font DejaVu Sans. Two runs of the same
# ffmpeg create equal files.
set -eu
cd "$(dirname "$0")/.."
font=$(fc-match -f '%{file}' 'DejaVu Sans:bold')
ffmpeg -v error -y -bitexact -f lavfi \
	-i "gradients=size=480x270:rate=12:duration=60:speed=0.004:seed=7:nb_colors=4:c0=0x94331a:c1=0xe6915f:c2=0x55819a:c3=0x26221c" \
	-f lavfi -i "color=c=0xffc46b:size=480x10:rate=12:duration=60" \
	-filter_complex "[0:v]drawtext=fontfile=$font:text='%{eif\:floor(t)\:d}':fontsize=120:fontcolor=white:borderw=3:bordercolor=0x231d16:x=(w-text_w)/2:y=(h-text_h)/2-8[a];[a][1:v]overlay=x='-w+w*t/60':y=260" \
	-c:v libvpx -pix_fmt yuv420p -b:v 20k -crf 36 -g 120 -deadline good -cpu-used 1 -threads 1 -flags +bitexact -fflags +bitexact -map_metadata -1 web/public/sample.webm
