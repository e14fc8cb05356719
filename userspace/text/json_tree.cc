// SPDX-License-Identifier: Apache-2.0
#include "text/json_tree.h"

#include <algorithm>
#include <utility>

#include "text/json_number.h"
#include "text/utf8.h"

namespace forestall::text {
namespace {

constexpr std::size_t kShownMax = 60;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(std::uint32_t code, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

class JsonTreeParser {
 public:
  JsonTreeParser(std::string_view text, const JsonDialect& dialect, std::uint32_t line,
                 std::vector<Diagnostic>& problems)
      : text_(text), dialect_(dialect), at_{line, 1}, problems_(problems) {}

  std::optional<JsonNode> document() {
    if (const auto bad = find_invalid_utf8(text_)) {
      while (i_ < *bad) next();
      problem(at_, "invalid JSON: not UTF-8");
      return std::nullopt;
    }
    JsonNode root;
    if (!skip() || !value(root, 0) || !skip()) return std::nullopt;
    if (i_ < text_.size()) {
      problem(at_, "invalid JSON: text after the end of the document");
      return std::nullopt;
    }
    return root;
  }

 private:
  bool problem(Position at, std::string message) {
    problems_.push_back({at, std::move(message)});
    return false;
  }

  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return i_ + ahead < text_.size() ? text_[i_ + ahead] : '\0';
  }

  // Columns count characters: the continuation bytes of UTF-8 do not.
  void next() {
    const char c = text_[i_++];
    if (c == '\n') {
      ++at_.line;
      at_.column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++at_.column;
    }
  }

  // Skips blanks and comments. False if a comment is not closed.
  bool skip() {
    while (i_ < text_.size()) {
      const char c = text_[i_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        next();
      } else if (dialect_.comments && c == '/' && peek(1) == '/') {
        while (i_ < text_.size() && text_[i_] != '\n') next();
      } else if (dialect_.comments && c == '/' && peek(1) == '*') {
        const Position begin = at_;
        const std::size_t end = text_.find("*/", i_ + 2);
        if (end == std::string_view::npos) return problem(begin, "the comment is not closed");
        while (i_ < end + 2) next();
      } else {
        return true;
      }
    }
    return true;
  }

  bool value(JsonNode& node, std::size_t depth) {
    node.at = at_;
    if (depth > kJsonTreeDepthMax) return problem(at_, "invalid JSON: too many levels");
    const char c = peek();
    if (c == '{') return object(node, depth);
    if (c == '[') return list(node, depth);
    if (c == '"') {
      node.kind = JsonNode::Kind::string;
      return string(node.text);
    }
    if (c == '-' || is_digit(c)) return number(node);
    return word(node);
  }

  bool word(JsonNode& node) {
    const auto starts = [this](std::string_view word) {
      if (!text_.substr(i_).starts_with(word)) return false;
      for (std::size_t n = 0; n < word.size(); ++n) next();
      return true;
    };
    if (starts("null")) return true;
    const bool is_true = starts("true");
    if (is_true || starts("false")) {
      node.kind = JsonNode::Kind::boolean;
      node.flag = is_true;
      return true;
    }
    if (i_ == text_.size()) return problem(at_, "invalid JSON: the text ends early");
    return problem(at_, "invalid JSON: expected a value");
  }

  bool number(JsonNode& node) {
    const std::size_t begin = i_;
    while (i_ < text_.size() && (is_digit(text_[i_]) || text_[i_] == '-' || text_[i_] == '+' ||
                                 text_[i_] == '.' || text_[i_] == 'e' || text_[i_] == 'E')) {
      next();
    }
    node.kind = JsonNode::Kind::number;
    node.text = std::string(text_.substr(begin, i_ - begin));
    if (is_json_number(node.text)) return true;
    return problem(node.at, "invalid JSON: malformed number '" + node.text + "'");
  }

  bool list(JsonNode& node, std::size_t depth) {
    node.kind = JsonNode::Kind::list;
    next();
    if (!skip()) return false;
    while (peek() != ']') {
      node.items.emplace_back();
      if (!value(node.items.back(), depth + 1) || !separator(']')) return false;
    }
    next();
    return true;
  }

  bool object(JsonNode& node, std::size_t depth) {
    node.kind = JsonNode::Kind::object;
    next();
    if (!skip()) return false;
    while (peek() != '}') {
      JsonMember member;
      member.at = at_;
      if (peek() != '"') return problem(at_, "invalid JSON: expected a key in double quotes");
      if (!string(member.key) || !skip()) return false;
      if (peek() != ':') return problem(at_, "invalid JSON: expected ':' after the key");
      next();
      if (!skip() || !value(member.value, depth + 1)) return false;
      if (node.find(member.key) != nullptr) {
        problem(member.at, "the key '" + member.key + "' occurs twice");
      } else {
        node.members.push_back(std::move(member));
      }
      if (!separator('}')) return false;
    }
    next();
    return true;
  }

  // What follows an item: a comma and the next item, or `end`, which is not skipped.
  bool separator(char end) {
    if (!skip()) return false;
    if (peek() == end) return true;
    if (peek() != ',') {
      if (i_ == text_.size()) return problem(at_, "invalid JSON: the text ends early");
      return problem(at_, std::string("invalid JSON: expected ',' or '") + end + "'");
    }
    const Position comma = at_;
    next();
    if (!skip()) return false;
    if (peek() == end && !dialect_.trailing_commas) {
      return problem(comma, std::string("invalid JSON: a comma before '") + end + "'");
    }
    return true;
  }

  bool string(std::string& out) {
    const Position begin = at_;
    next();
    while (i_ < text_.size() && text_[i_] != '"') {
      const char c = text_[i_];
      if (static_cast<unsigned char>(c) < 0x20) {
        return problem(at_, "invalid JSON: control character in a string");
      }
      if (c == '\\') {
        if (!escape(out)) return false;
      } else {
        out += c;
        next();
      }
    }
    if (i_ == text_.size()) return problem(begin, "invalid JSON: a string is not closed");
    next();
    return true;
  }

  bool escape(std::string& out) {
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    const Position begin = at_;
    next();
    const char c = peek();
    if (const std::size_t known = kFrom.find(c); c != '\0' && known != std::string_view::npos) {
      out += kTo[known];
      next();
      return true;
    }
    if (c != 'u') return problem(begin, "invalid JSON: unknown escape in a string");
    next();
    std::uint32_t code = 0;
    if (!hex(code)) return problem(begin, "invalid JSON: malformed \\u escape");
    if (code >= 0xD800 && code < 0xDC00 && peek() == '\\' && peek(1) == 'u') {
      next();
      next();
      std::uint32_t low = 0;
      if (!hex(low) || low < 0xDC00 || low > 0xDFFF) {
        return problem(begin, "invalid JSON: malformed \\u escape");
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xD800 && code < 0xE000) {
      return problem(begin, "invalid JSON: half of a surrogate pair");
    }
    append_utf8(code, out);
    return true;
  }

  bool hex(std::uint32_t& code) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (int digit = 0; digit < 4; ++digit) {
      const char c = peek();
      const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
      const std::size_t found = kDigits.find(lower);
      if (i_ >= text_.size() || found == std::string_view::npos) return false;
      code = code << 4 | static_cast<std::uint32_t>(found);
      next();
    }
    return true;
  }

  std::string_view text_;
  const JsonDialect& dialect_;
  std::size_t i_ = 0;
  Position at_;
  std::vector<Diagnostic>& problems_;
};

}  // namespace

const JsonNode* JsonNode::find(std::string_view key) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [key](const JsonMember& each) { return each.key == key; });
  return found == members.end() ? nullptr : &found->value;
}

std::string describe(const JsonNode& node) {
  switch (node.kind) {
    case JsonNode::Kind::null: return "null";
    case JsonNode::Kind::boolean: return node.flag ? "true" : "false";
    case JsonNode::Kind::number: return node.text;
    case JsonNode::Kind::string:
      if (node.text.size() > kShownMax) return "'" + node.text.substr(0, kShownMax) + "...'";
      return "'" + node.text + "'";
    case JsonNode::Kind::list: return "a list";
    case JsonNode::Kind::object: return "an object";
  }
  return {};
}

std::optional<JsonNode> parse_json(std::string_view text, const JsonDialect& dialect,
                                   std::uint32_t line, std::vector<Diagnostic>& problems) {
  const std::size_t before = problems.size();
  auto root = JsonTreeParser(text, dialect, line, problems).document();
  return problems.size() == before ? std::move(root) : std::nullopt;
}

}  // namespace forestall::text
