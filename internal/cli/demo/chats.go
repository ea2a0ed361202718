package demo

import "time"

// A line is a message of a chat in the demo.
type line struct {
	from     int           // the sender, by index in the cast
	ago      time.Duration // how long before the demo
	text     string
	replyTo  int    // the line it replies to, from 1; 0 for none
	emoji    string // the reaction of by
	by       int
	mentions []int
	picture  string // what the sent picture shows
	file     string // the name of a sent file
	recall   bool   // recalled a minute later
}

// A chat is one of Ada's chats in the demo.
type chat struct {
	with   int // the other user; ada means a group
	group  *group
	unread int // the number of last lines that Ada has not read
	pinned bool
	lines  []line
}

// A group is created and joined before its chat begins.
type group struct {
	owner        int
	name         string
	members      []int
	ago          time.Duration
	announcement string
}

const day = 24 * time.Hour

// chats are Ada's chats.
var chats = []chat{
	{with: bo, unread: 2, lines: []line{
		{from: bo, ago: 26 * time.Hour, text: "Did you check in yesterday? I nearly forgot, at five to midnight."},
		{from: ada, ago: 26*time.Hour - 2*time.Minute, text: "I did, in the morning. Eleven days in a row now!", emoji: "🎉", by: bo},
		{from: bo, ago: 25 * time.Hour, text: "Thirty is not far. I will catch up with you, wait and see."},
		{from: ada, ago: 24 * time.Hour, text: "We will see about that 😄", replyTo: 3},
		{from: bo, ago: 31 * time.Minute, text: "Some of us go for a walk along the canal on Saturday, " +
			"at ten. There is a good bakery on the way."},
		{from: bo, ago: 30 * time.Minute, text: "Will you come?"},
	}},
	{with: mingyuan, unread: 1, pinned: true, lines: []line{
		{from: mingyuan, ago: 50 * time.Hour, text: "你的中文进步好快！"},
		{from: ada, ago: 49 * time.Hour, text: "谢谢！我每天学二十个生词。", emoji: "👍", by: mingyuan},
		{from: mingyuan, ago: 48 * time.Hour, text: "有什么不懂的，随时问我。"},
		{from: ada, ago: 3 * time.Hour, text: "“马马虎虎”是什么意思？为什么是两匹马、两只老虎？"},
		{from: mingyuan, ago: 2 * time.Hour, text: "意思是“一般般”或者“不太认真”。传说有个画家画的动物，一半像马，一半像虎 😂", replyTo: 4},
	}},
	{with: eunji, lines: []line{
		{from: ada, ago: 5 * time.Hour, text: "How was the concert?"},
		{from: eunji, ago: 4*time.Hour + 42*time.Minute, text: "Wonderful! They palyed for two hours.", recall: true},
		{from: eunji, ago: 4*time.Hour + 40*time.Minute, text: "Wonderful! They played for two hours.", emoji: "❤️", by: ada},
		{from: eunji, ago: 4*time.Hour + 39*time.Minute, picture: "The sun goes down behind hills, over still water"},
		{from: eunji, ago: 4*time.Hour + 38*time.Minute, text: "The way home along the lake"},
		{from: ada, ago: 4 * time.Hour, text: "Next time I am coming along."},
	}},
	{with: siyu, lines: []line{
		{from: ada, ago: 75 * time.Hour, text: "周末的读书会还是三点吗？"},
		{from: siyu, ago: 74 * time.Hour, text: "改到四点了，地点不变。", emoji: "👍", by: ada},
		{from: siyu, ago: 74*time.Hour - time.Minute, file: "书单.txt"},
		{from: ada, ago: 73 * time.Hour, text: "好的，到时候见！"},
	}},
	{with: hana, lines: []line{
		{from: hana, ago: 200 * time.Hour, text: "Thank you for the recipe. It worked at the second try."},
		{from: ada, ago: 199 * time.Hour, text: "The second is the one that counts."},
	}},
	{group: &group{owner: ada, name: "Saturday walkers", members: []int{bo, eunji, hana, jonas, petra, 19, 25}, ago: 60 * day,
		announcement: "We meet at the old lock, Saturdays at ten. Bring something warm to drink."}, unread: 2, lines: []line{
		{from: ada, ago: 8*day + 3*time.Hour, text: "Is somebody in for the long way round the lake this week?"},
		{from: jonas, ago: 8*day + 2*time.Hour, text: "I am, if we are back by four.", emoji: "👍", by: ada},
		{from: petra, ago: 8*day + time.Hour, text: "I will bring cake.", emoji: "🎂", by: bo},
		{from: bo, ago: 6*day + 5*time.Hour, picture: "A lake at sunset, seen from the path"},
		{from: bo, ago: 6*day + 5*time.Hour - time.Minute, text: "Four hours, and only one wet foot."},
		{from: hana, ago: 6*day + 4*time.Hour, text: "It was mine 😅", replyTo: 5},
		{from: ada, ago: 2 * day, text: "@Jonas can you look up the train home?", mentions: []int{jonas}},
		{from: jonas, ago: 2*day - 40*time.Minute, file: "trains.txt"},
		{from: jonas, ago: 2*day - 41*time.Minute, text: "Every half hour until nine."},
		{from: petra, ago: 50 * time.Minute, text: "@Ada shall we meet at the lock again?", mentions: []int{ada}},
		{from: bo, ago: 45 * time.Minute, text: "The lock is fine for me."},
	}},
	{group: &group{owner: siyu, name: "读书会", members: []int{ada, mingyuan, xiaofeng, lin, mei}, ago: 120 * day,
		announcement: "本月读《边城》。周日下午四点，老地方见。"}, lines: []line{
		{from: siyu, ago: 5 * day, text: "大家读到哪一章了？"},
		{from: xiaofeng, ago: 5*day - time.Hour, text: "第十章，翠翠真让人心疼。", emoji: "❤️", by: siyu},
		{from: ada, ago: 5*day - 2*time.Hour, text: "我才读到第四章，要查很多生词。"},
		{from: mingyuan, ago: 5*day - 3*time.Hour, text: "慢慢来，不着急。", replyTo: 3, emoji: "🙏", by: ada},
		{from: lin, ago: 3 * day, text: "周日我带茶叶来。"},
		{from: mei, ago: 3*day - time.Hour, text: "我画了一张渡口。", emoji: "👏", by: lin},
	}},
}

// friends are Ada's friends and friend requests. They include all members of her chats and of her own group.
var friends = []struct {
	user          int
	part          float64 // the part of the time since both have accounts
	requestsFirst bool    // the friend has sent the request; otherwise Ada has
	message       string
	remark        string
	tag           string
}{
	{bo, 0.93, false, "We met at the lock, remember?", "", "walks"}, {mingyuan, 0.85, false, "您好！我在学中文，可以请教您吗？", "", "中文"},
	{eunji, 0.78, true, "Hi Ada, we sat next to each other at the concert.", "", ""}, {siyu, 0.7, true, "欢迎来我们的读书会！", "", "中文"},
	{hana, 0.62, true, "Your recipe, please!", "", "walks"}, {jonas, 0.9, false, "", "Jonas (bicycle)", "walks"},
	{petra, 0.55, true, "", "", "walks"},
	{xiaofeng, 0.5, true, "读书会见过面。", "", "中文"}, {lin, 0.66, true, "", "", "中文"}, {mei, 0.4, true, "", "", "中文"},
	{giulia, 0.35, false, "Ciao!", "", ""},
	{10, 0.8, true, "", "", ""}, {19, 0.45, true, "", "", "walks"}, {25, 0.3, false, "", "", "walks"},
	{28, 0.25, true, "Hello from Oslo", "", ""}, {quinn, 0.2, true, "", "", ""},
}

// comments are the danmaku on the film.
var comments = []struct {
	from  int
	at    time.Duration // position in the film
	text  string
	color int
	mode  string
}{
	{bo, 3 * time.Second, "Here we go!", 0xffffff, ""}, {mingyuan, 7 * time.Second, "颜色真好看", 0xffd54f, ""},
	{hana, 12 * time.Second, "きれい！", 0xf48fb1, ""},
	{jonas, 17 * time.Second, "Twelve pictures a second are enough", 0x80deea, ""}, {lin, 22 * time.Second, "哈哈哈", 0xffffff, ""},
	{petra, 28 * time.Second, "I like this part", 0xa5d6a7, "top"},
	{bo, 34 * time.Second, "Half way", 0xffffff, ""}, {siyu, 41 * time.Second, "循环播放也不腻", 0xffd54f, ""},
	{hana, 48 * time.Second, "again, again", 0xf48fb1, ""}, {mingyuan, 55 * time.Second, "再来一遍", 0xffffff, "bottom"},
}

// spoken are the lines of the room's chat.
var spoken = []struct {
	from int
	ago  time.Duration
	text string
}{
	{bo, 25 * time.Minute, "Can everybody see it?"}, {hana, 24 * time.Minute, "Yes, and I am in step with you."},
	{mingyuan, 23 * time.Minute, "我这边也很流畅。"}, {jonas, 12 * time.Minute, "I was late, and it brought me to where you are."},
	{siyu, 11 * time.Minute, "欢迎！"},
}
