DROP INDEX room_items_place{{on room_items}}
