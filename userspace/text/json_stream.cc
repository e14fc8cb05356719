// SPDX-License-Identifier: Apache-2.0
#include "text/json_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace forestall::text {
namespace {

constexpr std::string_view kItems = "items";

bool is_json_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// Characters that matter outside of strings.
constexpr auto kStructural = [] {
  std::array<bool, 256> table{};
  for (const char c : std::string_view("{}[]\"")) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  Result<std::vector<JsonDocumentSpan>> scan() {
    std::vector<JsonDocumentSpan> documents;
    for (skip_space(); at_ < text_.size(); skip_space()) {
      documents.push_back(TRY(scan_document()));
    }
    return documents;
  }

 private:
  Error wrong(std::size_t offset, std::string_view problem) const {
    const Position at = position_of(text_, offset);
    return error(fmt::format("{}:{}: {}", at.line, at.column, problem));
  }

  void skip_space() {
    while (at_ < text_.size() && is_json_space(text_[at_])) ++at_;
  }

  // Most of an indented text is the spaces that lines begin with.
  void skip_indentation() {
    constexpr std::string_view kSpaces = "        ";
    while (text_.substr(at_, kSpaces.size()) == kSpaces) at_ += kSpaces.size();
  }

  // At an opening quote; ends after the closing one.
  Result<void> skip_string() {
    const std::size_t begin = at_++;
    for (;;) {
      const void* const quote =
          at_ < text_.size() ? std::memchr(text_.data() + at_, '"', text_.size() - at_) : nullptr;
      if (quote == nullptr) return wrong(begin, "invalid JSON: a string is not closed");
      const auto end = static_cast<std::size_t>(static_cast<const char*>(quote) - text_.data());
      std::size_t backslashes = 0;
      while (end - backslashes > begin + 1 && text_[end - backslashes - 1] == '\\') ++backslashes;
      at_ = end + 1;
      if (backslashes % 2 == 0) return {};
    }
  }

  // At an opening bracket; ends after the matching one.
  Result<void> skip_nested() {
    const std::size_t begin = at_;
    std::size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (!kStructural[static_cast<unsigned char>(c)]) {
        ++at_;
        if (c == '\n') skip_indentation();
      } else if (c == '"') {
        TRY(skip_string());
      } else {
        depth += c == '{' || c == '[' ? 1 : 0;
        depth -= c == '}' || c == ']' ? 1 : 0;
        ++at_;
        if (depth == 0) return {};
      }
    }
    return wrong(begin, "invalid JSON: a bracket is not closed");
  }

  // The objects of a list; ends after its closing bracket.
  Result<void> scan_items(JsonDocumentSpan& document) {
    const std::size_t begin = at_++;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ']') {
        ++at_;
        return {};
      }
      if (c == '{') {
        const std::size_t item = at_;
        TRY(skip_nested());
        document.items.push_back(text_.substr(item, at_ - item));
      } else if (c == ',' || is_json_space(c)) {
        ++at_;
      } else {
        return wrong(at_, "items: expected an object");
      }
    }
    return wrong(begin, "invalid JSON: a bracket is not closed");
  }

  // The members of the outermost object.
  Result<void> scan_members(JsonDocumentSpan& document) {
    const std::size_t begin = at_++;
    std::size_t framed = begin;
    std::string_view last;  // string, which is a key if a colon follows
    bool after_colon = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '}') {
        document.frame += text_.substr(framed, ++at_ - framed);
        return {};
      }
      if (c == '[' && after_colon && last == kItems) {
        document.has_items = true;
        document.frame += text_.substr(framed, at_ + 1 - framed);
        TRY(scan_items(document));
        framed = at_ - 1;
        after_colon = false;
      } else if (c == '{' || c == '[') {
        TRY(skip_nested());
        after_colon = false;
      } else if (c == '"') {
        const std::size_t string = at_ + 1;
        TRY(skip_string());
        last = text_.substr(string, at_ - string - 1);
        after_colon = false;
      } else {
        if (!is_json_space(c)) after_colon = c == ':';
        ++at_;
      }
    }
    return wrong(begin, "invalid JSON: a bracket is not closed");
  }

  Result<JsonDocumentSpan> scan_document() {
    JsonDocumentSpan document;
    document.begin = at_;
    if (text_[at_] == '[') {
      TRY(skip_nested());
    } else if (text_[at_] == '{') {
      TRY(scan_members(document));
    } else {
      return wrong(at_, "invalid JSON: expected an object or a list");
    }
    document.text = text_.substr(document.begin, at_ - document.begin);
    return document;
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::vector<JsonDocumentSpan>> split_json(std::string_view text) {
  return JsonScanner(text).scan();
}

Position position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<std::uint32_t>(line), static_cast<std::uint32_t>(offset - start + 1)};
}

}  // namespace forestall::text
