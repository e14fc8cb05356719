// SPDX-License-Identifier: Apache-2.0
#include "text/list_splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

// What ends a run of characters outside of strings, or within one.
constexpr std::array<bool, 256> ends_run(std::string_view ends) {
  std::array<bool, 256> table{};
  for (const char c : ends) table[static_cast<unsigned char>(c)] = true;
  return table;
}
constexpr std::array<bool, 256> kEndsInString = ends_run("\"\\");
constexpr std::array<bool, 256> kEndsOutside = ends_run("\"{}[]");

std::size_t run_end(std::string_view text, std::size_t at, const std::array<bool, 256>& ends) {
  while (at < text.size() && !ends[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

}  // namespace

Result<void> ListSplitter::add(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t size = in_item_ ? scan_item(piece) : 1;
    const std::string_view part = piece.substr(0, size);
    if (in_item_) {
      TRY(take_in_item(part));
    } else {
      TRY(take(part.front()));
    }
    count(part);
    piece.remove_prefix(size);
  }
  return {};
}

void ListSplitter::count(std::string_view passed) {
  const std::size_t last = passed.rfind('\n');
  if (last == std::string_view::npos) {
    column_ += passed.size();
    return;
  }
  line_ += static_cast<std::size_t>(std::ranges::count(passed, '\n'));
  column_ = passed.size() - last;
}

// Most bytes of a list are those of its objects, so it passes over them in runs. Returns the size
// up to the end of the object that is open; all of `text`, if it has no end there.
std::size_t ListSplitter::scan_item(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (escaped_) {
      escaped_ = false;
      ++at;
      continue;
    }
    at = run_end(text, at, in_string_ ? kEndsInString : kEndsOutside);
    if (at == text.size()) break;
    track(text[at++]);
    if (depth_ == kListDepth && !in_string_) return at;
  }
  return text.size();
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
  if (!in_item_) return take_in_frame(c);
  track(c);
  return take_in_item({&c, 1});
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

// `part` was tracked.
Result<void> ListSplitter::take_in_item(std::string_view part) {
  if (part.size() > bytes_max_ - item_.size()) {
    return error(fmt::format("{}[{}]: larger than {} MiB", key_, index_, bytes_max_ >> 20));
  }
  item_ += part;
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
