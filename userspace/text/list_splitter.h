// SPDX-License-Identifier: Apache-2.0
// Splits a large JSON document into the objects of one list and the frame around them, so that the
// text of one object is in memory at a time. It finds the ends of objects and checks nothing else:
// a JSON parser reads each object and the frame.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace forestall::text {

// An object of the list, and where it begins.
struct ListItem {
  std::string_view text;
  std::size_t index = 0;  // in the list
  std::size_t line = 1;
  std::size_t column = 1;
};

class ListSplitter {
 public:
  using OnItem = std::function<Result<void>(const ListItem&)>;

  // Splits the list under `key` of the outermost object. If the key occurs again, `on_list` is
  // called for each list. An object, and the frame, may have `bytes_max` bytes.
  ListSplitter(std::string_view key, std::size_t bytes_max, std::function<void()> on_list,
               OnItem on_item)
      : key_(key),
        bytes_max_(bytes_max),
        on_list_(std::move(on_list)),
        on_item_(std::move(on_item)) {}

  // The next piece of the text, of any size. The error is that of `on_item`, or a size.
  [[nodiscard]] Result<void> add(std::string_view piece);
  // Passes on an object that the text leaves open.
  [[nodiscard]] Result<void> end();
  // The text so far, with {} in place of each object of the list.
  [[nodiscard]] const std::string& frame() const { return frame_; }
  // Whether the list was found.
  [[nodiscard]] bool found() const { return found_; }

 private:
  Result<void> take(char c);
  Result<void> take_in_frame(char c);
  Result<void> take_in_item(std::string_view part);
  [[nodiscard]] std::size_t scan_item(std::string_view text);
  void count(std::string_view passed);
  Result<void> pass_item();
  void track(char c);

  const std::string_view key_;
  const std::size_t bytes_max_;
  const std::function<void()> on_list_;
  const OnItem on_item_;
  std::string frame_;
  std::string item_;
  std::string last_string_;  // of the outermost object: a key, if a colon follows
  std::size_t depth_ = 0;
  std::size_t index_ = 0;
  std::size_t line_ = 1;
  std::size_t column_ = 1;
  std::size_t item_line_ = 1;
  std::size_t item_column_ = 1;
  bool in_string_ = false;
  bool escaped_ = false;
  bool after_colon_ = false;  // the last token of the frame
  bool in_list_ = false;
  bool in_item_ = false;
  bool found_ = false;
};

}  // namespace forestall::text
