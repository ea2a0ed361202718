package redis
import ("testing";"time";"strconv";"github.com/alicebob/miniredis/v2")
func BenchmarkFF(b *testing.B){
 for _,n:=range []int{1000,100000,1000000}{ b.Run(strconv.Itoa(n),func(b *testing.B){
 m:=miniredis.NewMiniRedis(); c,_:=m.Dial(); c.Close()
 for i:=range n { k:="stoa:user:sign:"+strconv.Itoa(i); m.Set(k,"x"); m.SetTTL(k,time.Hour) }
 for b.Loop(){ m.FastForward(time.Millisecond) } }) }
}
