// SPDX-License-Identifier: Apache-2.0
#include "messages/yaml_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>

#include "base/quotes.h"
#include "text/yaml_tree.h"

namespace forestall::messages {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Longer keys are not compared with the allowed ones, because the comparison is quadratic.
constexpr std::size_t kWordMax = 64;
std::vector<std::string> keys_of(const Descriptor& type) {
  std::vector<std::string> keys;
  for (int i = 0; i < type.field_count(); ++i) keys.push_back(type.field(i)->json_name());
  return keys;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Number of edits (insert, delete or replace one character, or swap two neighbors, ignoring case)
// between two words.
std::size_t distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const auto same = [&](std::size_t i, std::size_t j) { return lower(a[i]) == lower(b[j]); };
  std::vector<std::size_t> two_before;
  std::vector<std::size_t> before(b.size() + 1);
  std::iota(before.begin(), before.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::vector<std::size_t> row{i + 1};
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t edits =
          std::min({before[j] + (same(i, j) ? 0 : 1), row[j] + 1, before[j + 1] + 1});
      if (i > 0 && j > 0 && same(i, j - 1) && same(i - 1, j)) {
        edits = std::min(edits, two_before[j - 1] + 1);
      }
      row.push_back(edits);
    }
    two_before = std::move(before);
    before = std::move(row);
  }
  return before[b.size()];
}

class Binder {
 public:
  Binder(FieldPositions& places, std::vector<text::Diagnostic>& problems)
      : places_(places), problems_(problems) {}

  void message(const text::YamlNode& node, const std::string& path, Message& out) {
    const Descriptor& type = *out.GetDescriptor();
    for (const text::YamlEntry& entry : node.entries) {
      const FieldDescriptor* field = find(type, entry.key);
      if (field == nullptr) {
        places_.set_incomplete(path);
        problem(entry.at,
                "unknown key " + in_quotes(entry.key) + allowed_words(entry.key, keys_of(type)));
        continue;
      }
      const std::string child = path.empty() ? entry.key : path + "." + entry.key;
      places_.add(child, {entry.at, entry.value.at});
      this->field(entry.value, child, *field, out);
    }
  }

 private:
  static const FieldDescriptor* find(const Descriptor& type, std::string_view key) {
    for (int i = 0; i < type.field_count(); ++i) {
      if (type.field(i)->json_name() == key) return type.field(i);
    }
    return nullptr;
  }

  void field(const text::YamlNode& node, const std::string& path, const FieldDescriptor& field,
             Message& out) {
    const std::string what = "'" + field.json_name() + "'";
    if (field.is_map()) return map(node, path, field, out);
    if (field.is_repeated()) return list(node, path, field, out);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!is_map_of(node, what, *field.message_type(), empty_hint(node, "{}"))) return;
      return message(node, path, *out.GetReflection()->MutableMessage(&out, &field));
    }
    if (is_scalar(node, what, field)) scalar(node, what, field, out);
  }

  void list(const text::YamlNode& node, const std::string& path, const FieldDescriptor& field,
            Message& out) {
    if (node.kind != text::YamlNode::Kind::list) {
      return problem(node.at, "'" + field.json_name() + "' must be a list, found " +
                                  text::describe(node) + empty_hint(node, "[]"));
    }
    const std::string what = "each item of '" + field.json_name() + "'";
    const bool of_messages = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    std::size_t index = 0;
    for (const text::YamlNode& item : node.items) {
      const std::string child = path + "[" + std::to_string(index++) + "]";
      places_.add(child, {item.at, item.at});
      // An invalid item is added as an empty one, so that indices match the text.
      if (of_messages) {
        Message& added = *out.GetReflection()->AddMessage(&out, &field);
        if (is_map_of(item, what, *field.message_type(), "")) {
          message(item, child, added);
        } else {
          places_.set_incomplete(child);
        }
      } else if (is_scalar(item, what, field)) {
        scalar(item, what, field, out);
      }
    }
  }

  // Only string -> string, because configuration schemas have no other maps.
  void map(const text::YamlNode& node, const std::string& path, const FieldDescriptor& field,
           Message& out) {
    if (node.kind != text::YamlNode::Kind::map) {
      return problem(node.at, "'" + field.json_name() + "' must be a map, found " +
                                  text::describe(node) + empty_hint(node, "{}"));
    }
    const Descriptor& type = *field.message_type();
    for (const text::YamlEntry& entry : node.entries) {
      places_.add(path + "[" + entry.key + "]", {entry.at, entry.value.at});
      if (!is_scalar(entry.value, in_quotes(entry.key), *type.map_value())) continue;
      Message& added = *out.GetReflection()->AddMessage(&out, &field);
      added.GetReflection()->SetString(&added, type.map_key(), entry.key);
      scalar(entry.value, in_quotes(entry.key), *type.map_value(), added);
    }
  }

  bool is_map_of(const text::YamlNode& node, const std::string& what, const Descriptor& type,
                 const std::string& hint) {
    if (node.kind == text::YamlNode::Kind::map) return true;
    problem(node.at, what + " must be a map of " + join(keys_of(type)) + ", found " +
                         text::describe(node) + hint);
    return false;
  }

  bool is_scalar(const text::YamlNode& node, const std::string& what,
                 const FieldDescriptor& field) {
    if (node.kind == text::YamlNode::Kind::scalar) return true;
    if (node.kind == text::YamlNode::Kind::null) {
      problem(node.at, what + " has no value; leave the key out, or give it one");
    } else {
      problem(node.at, what + " must be " + expected(field) + ", found " + text::describe(node));
    }
    return false;
  }

  static std::string empty_hint(const text::YamlNode& node, std::string_view empty) {
    if (node.kind != text::YamlNode::Kind::null) return "";
    return "; write " + std::string(empty) + " for an empty one, or leave the key out";
  }

  static std::string expected(const FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
      case FieldDescriptor::CPPTYPE_INT32: return whole_number<std::int32_t>();
      case FieldDescriptor::CPPTYPE_INT64: return whole_number<std::int64_t>();
      case FieldDescriptor::CPPTYPE_UINT32: return whole_number<std::uint32_t>();
      case FieldDescriptor::CPPTYPE_UINT64: return whole_number<std::uint64_t>();
      default: return "a single value";
    }
  }

  template <typename Number>
  static std::string whole_number() {
    return "a whole number from " + std::to_string(std::numeric_limits<Number>::min()) + " to " +
           std::to_string(std::numeric_limits<Number>::max());
  }

  void scalar(const text::YamlNode& node, const std::string& what, const FieldDescriptor& field,
              Message& out) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING: return string(node, what, field, out);
      case FieldDescriptor::CPPTYPE_BOOL:
        if (!node.quoted && (node.text == "true" || node.text == "false")) {
          out.GetReflection()->SetBool(&out, &field, node.text == "true");
          return;
        }
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        if (const auto n = number<std::int32_t>(node)) {
          return out.GetReflection()->SetInt32(&out, &field, *n);
        }
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        if (const auto n = number<std::int64_t>(node)) {
          return out.GetReflection()->SetInt64(&out, &field, *n);
        }
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        if (const auto n = number<std::uint32_t>(node)) {
          // Lists of numbers are always uint32 in configuration schemas.
          if (field.is_repeated()) return out.GetReflection()->AddUInt32(&out, &field, *n);
          return out.GetReflection()->SetUInt32(&out, &field, *n);
        }
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        if (const auto n = number<std::uint64_t>(node)) {
          return out.GetReflection()->SetUInt64(&out, &field, *n);
        }
        break;
      default: break;  // no configuration schema has these; the value is refused
    }
    problem(node.at, what + " must be " + expected(field) + ", found " + text::describe(node));
  }

  void string(const text::YamlNode& node, const std::string& what, const FieldDescriptor& field,
              Message& out) {
    const bool control = std::any_of(node.text.begin(), node.text.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
    if (control) return problem(node.at, what + " must not hold line breaks or control characters");
    if (node.text.empty()) return problem(node.at, what + " must not be empty");
    if (field.is_repeated()) {
      out.GetReflection()->AddString(&out, &field, node.text);
    } else {
      out.GetReflection()->SetString(&out, &field, node.text);
    }
  }

  // Plain decimal. A leading zero is refused, because it means octal in YAML 1.1 but not in YAML
  // 1.2.
  template <typename Number>
  static std::optional<Number> number(const text::YamlNode& node) {
    if (node.quoted) return std::nullopt;
    const std::string_view text = node.text;
    const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
    if (digits.size() > 1 && digits.starts_with('0')) return std::nullopt;
    Number n{};
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return n;
  }

  void problem(text::Position at, std::string message) {
    problems_.push_back({at, std::move(message)});
  }

  FieldPositions& places_;
  std::vector<text::Diagnostic>& problems_;
};

// "a.b[c]" -> "a.b" -> "a" -> "".
std::string_view parent_of(std::string_view path) {
  const std::size_t cut = path.find_last_of(path.ends_with(']') ? '[' : '.');
  return cut == std::string_view::npos ? std::string_view() : path.substr(0, cut);
}

}  // namespace

FieldPositions::FieldPosition FieldPositions::nearest(std::string_view path) const {
  for (;; path = parent_of(path)) {
    const auto found = places_.find(path);
    if (found != places_.end()) return found->second;
    if (path.empty()) return {};
  }
}

text::Position FieldPositions::key(std::string_view path) const {
  return nearest(path).key;
}
text::Position FieldPositions::value(std::string_view path) const {
  return nearest(path).value;
}

FieldPositions read_yaml(std::string_view text, Message& message,
                         std::vector<text::Diagnostic>& problems) {
  message.Clear();
  FieldPositions places;
  const std::optional<text::YamlNode> root = text::parse_yaml(text, problems);
  if (!root) return places;
  places.add("", {root->at, root->at});
  if (root->kind != text::YamlNode::Kind::map) {
    problems.push_back({root->at, "the file must be a map of " +
                                      join(keys_of(*message.GetDescriptor())) + ", found " +
                                      text::describe(*root)});
    return places;
  }
  Binder(places, problems).message(*root, "", message);
  return places;
}

std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& allowed) {
  if (word.empty() || word.size() > kWordMax) return std::nullopt;
  // At most a quarter of the letters may differ; otherwise the suggestion would mislead
  // (evictionSoft is not a misspelt evictionHard).
  std::size_t best = std::max<std::size_t>(word.size() / 4, 1) + 1;
  std::optional<std::string> nearest;
  for (const std::string& candidate : allowed) {
    const std::size_t edits = distance(word, candidate);
    if (edits < best) {
      best = edits;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string allowed_words(std::string_view word, const std::vector<std::string>& allowed) {
  const auto near = nearest_word(word, allowed);
  return "; " + (near ? "did you mean '" + *near + "'? Allowed" : std::string("allowed")) +
         " here: " + join(allowed);
}

}  // namespace forestall::messages
