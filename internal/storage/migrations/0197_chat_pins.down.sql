DROP TABLE chat_pins
