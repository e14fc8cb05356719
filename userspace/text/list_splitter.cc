// SPDX-License-Identifier: Apache-2.0
#include "text/list_splitter.h"

#include <fmt/format.h>

namespace forestall::text {
namespace {

constexpr std::size_t kListDepth = 2;  // in the outermost object, in the list

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool opens(char c) {
  return c == '{' || c == '[';
}

bool closes(char c) {
  return c == '}' || c == ']';
}

}  // namespace

Result<void> ListSplitter::add(std::string_view piece) {
  for (const char c : piece) {
    TRY(take(c));
    ++column_;
    if (c != '\n') continue;
    ++line_;
    column_ = 1;
  }
  return {};
}

Result<void> ListSplitter::end() {
  return in_item_ ? pass_item() : Result<void>();
}

Result<void> ListSplitter::take(char c) {
  if (!in_item_ && in_list_ && depth_ == kListDepth && !in_string_ && c == '{') {
    in_item_ = true;
    item_line_ = line_;
    item_column_ = column_;
  }
  return in_item_ ? take_in_item(c) : take_in_frame(c);
}

// Depth and strings, which are the same inside and outside of the list.
void ListSplitter::track(char c) {
  if (in_string_) {
    in_string_ = escaped_ || c != '"';
    escaped_ = !escaped_ && c == '\\';
  } else if (c == '"') {
    in_string_ = true;
  } else if (opens(c)) {
    ++depth_;
  } else if (closes(c) && depth_ > 0) {
    --depth_;
  }
}

Result<void> ListSplitter::take_in_item(char c) {
  item_.push_back(c);
  if (item_.size() > bytes_max_) {
    return error(fmt::format("{}[{}]: larger than {} MiB", key_, index_, bytes_max_ >> 20));
  }
  track(c);
  return depth_ == kListDepth && !in_string_ ? pass_item() : Result<void>();
}

Result<void> ListSplitter::pass_item() {
  const Result<void> passed = on_item_({item_, index_, item_line_, item_column_});
  item_.clear();
  in_item_ = false;
  frame_ += "{}";
  return passed;
}

Result<void> ListSplitter::take_in_frame(char c) {
  frame_.push_back(c);
  if (frame_.size() > bytes_max_) {
    return error(
        fmt::format("the text outside of {} is larger than {} MiB", key_, bytes_max_ >> 20));
  }
  const bool was_in_string = in_string_;
  track(c);
  if (was_in_string) {
    if (in_string_ && depth_ == 1) last_string_.push_back(c);
    return {};
  }
  if (in_string_) {
    last_string_.clear();
  } else if (c == '[' && depth_ == kListDepth && after_colon_ && last_string_ == key_) {
    in_list_ = found_ = true;
    index_ = 0;
    on_list_();
  } else if (in_list_ && depth_ < kListDepth) {
    in_list_ = false;
  } else if (in_list_ && depth_ == kListDepth && c == ',') {
    ++index_;
  }
  if (!is_space(c)) after_colon_ = c == ':';
  return {};
}

}  // namespace forestall::text
