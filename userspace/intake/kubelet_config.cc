// SPDX-License-Identifier: Apache-2.0
#include "intake/kubelet_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "messages/yaml_message.h"
#include "text/yaml_tree.h"

namespace forestall::intake {
namespace {

constexpr std::string_view kKind = "KubeletConfiguration";
constexpr std::string_view kApiVersion = "kubelet.config.k8s.io/v1beta1";

// Booleans of YAML 1.1, which kubelet's YAML library accepts too.
constexpr std::array<std::string_view, 11> kTrue{"true", "True", "TRUE", "yes", "Yes", "YES",
                                                 "on",   "On",   "ON",   "y",   "Y"};
constexpr std::array<std::string_view, 11> kFalse{"false", "False", "FALSE", "no", "No", "NO",
                                                  "off",   "Off",   "OFF",   "n",  "N"};

template <std::size_t kSize>
bool is_one_of(std::string_view text, const std::array<std::string_view, kSize>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Integers of YAML 1.1: decimal, or with the prefixes 0x, 0b, 0o and 0 (octal); underscores may
// separate digits.
std::optional<std::int64_t> yaml_integer(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char prefix = digits[1];
    base = prefix == 'x' ? 16 : prefix == 'b' ? 2 : 8;
    digits.erase(0, prefix == 'x' || prefix == 'b' || prefix == 'o' ? 2 : 1);
  }
  if (digits.empty() || digits[0] == '-' || text.starts_with('_')) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (failure != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> yaml_number(std::string_view text) {
  if (const auto integer = yaml_integer(text)) return static_cast<double>(*integer);
  if (text == ".inf" || text == "-.inf" || text == ".nan") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::string digits(text);
  std::erase(digits, '_');
  std::string_view rest = digits;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  // from_chars() also accepts "inf" and "nan", which are strings in YAML.
  if (rest.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || rest.empty()) return std::nullopt;
  if (failure == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
  return failure == std::errc{} ? std::optional(value) : std::nullopt;
}

// The JSON type of a scalar: kubelet converts YAML to JSON before it checks types.
enum class JsonType : std::uint8_t { text, truth, number };

JsonType type_of(const text::YamlNode& scalar) {
  if (scalar.quoted) return JsonType::text;
  if (is_one_of(scalar.text, kTrue) || is_one_of(scalar.text, kFalse)) return JsonType::truth;
  return yaml_number(scalar.text) ? JsonType::number : JsonType::text;
}

std::string found(const text::YamlNode& node) {
  return ", found " + text::describe(node);
}

class SettingsReader {
 public:
  SettingsReader(const std::string& file, std::vector<text::Finding>& errors)
      : file_(file), errors_(errors) {}

  KubeletSettings read(const text::YamlNode& root) {
    identity(root);
    KubeletSettings settings;
    std::vector<std::string> known;
    for_each_setting([&](const char* key, auto member) {
      known.emplace_back(key);
      const text::YamlEntry* entry = find(root, key);
      if (entry == nullptr) return;
      auto& setting = settings.*member;
      setting.emplace();
      setting->key = place(entry->at);
      setting->at = place(entry->value.at);
      if (!value(entry->value, key, setting->value)) setting.reset();
    });
    if (auto& path = settings.cgroup_root) path->value = cgroup_root_path(path->value);
    for (const text::YamlEntry& entry : root.entries) refuse_misspelt(entry, known);
    return settings;
  }

 private:
  text::Origin place(text::Position at) const { return {file_, at}; }
  void error(text::Position at, std::string message) {
    errors_.push_back({place(at), std::move(message)});
  }

  static const text::YamlEntry* find(const text::YamlNode& root, std::string_view key) {
    const auto entry = std::find_if(root.entries.begin(), root.entries.end(),
                                    [&](const text::YamlEntry& each) { return each.key == key; });
    return entry == root.entries.end() ? nullptr : &*entry;
  }

  void identity(const text::YamlNode& root) {
    for (const auto& [key, wanted] : {std::pair<std::string_view, std::string_view>{"kind", kKind},
                                      {"apiVersion", kApiVersion}}) {
      const text::YamlEntry* entry = find(root, key);
      const std::string name = "'" + std::string(key) + "'";
      if (entry == nullptr) {
        error(root.at, name + " is missing; a KubeletConfiguration has '" + std::string(key) +
                           ": " + std::string(wanted) + "'");
      } else if (entry->value.kind != text::YamlNode::Kind::scalar || entry->value.text != wanted) {
        error(entry->value.kind == text::YamlNode::Kind::null ? entry->at : entry->value.at,
              name + " must be " + std::string(wanted) + found(entry->value));
      }
    }
  }

  // A key that begins like an eviction setting must be one. A key that resembles another setting is
  // assumed to be misspelt; no real key of a KubeletConfiguration resembles one.
  void refuse_misspelt(const text::YamlEntry& entry, const std::vector<std::string>& known) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) return;
    std::string lower = entry.key;
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    const auto near = messages::nearest_word(entry.key, known);
    if (near) {
      error(entry.at, "unknown key '" + entry.key + "'; did you mean '" + *near + "'?");
    } else if (lower.starts_with("eviction")) {
      std::vector<std::string> evictions;
      std::copy_if(known.begin(), known.end(), std::back_inserter(evictions),
                   [](const std::string& each) { return each.starts_with("eviction"); });
      error(entry.at, "unknown eviction setting '" + entry.key + "'" +
                          messages::allowed_words(entry.key, evictions));
    }
  }

  // Each returns whether a value was given; null means not given, as in JSON.
  bool value(const text::YamlNode& node, const std::string& key, WrittenPairs& out) {
    if (node.kind == text::YamlNode::Kind::null) return false;
    if (node.kind != text::YamlNode::Kind::map) {
      error(node.at, "'" + key + "' must be a map" + found(node));
      return false;
    }
    for (const text::YamlEntry& entry : node.entries) {
      WrittenPair pair{entry.key, "", place(entry.at), place(entry.value.at)};
      if (entry.value.kind == text::YamlNode::Kind::null) {
        error(entry.at, "'" + entry.key + "' has no value");
      } else if (text(entry.value, "'" + entry.key + "' in '" + key + "'", pair.value)) {
        out.push_back(std::move(pair));
      }
    }
    return true;
  }

  bool value(const text::YamlNode& node, const std::string& key, std::vector<std::string>& out) {
    if (node.kind == text::YamlNode::Kind::null) return false;
    if (node.kind != text::YamlNode::Kind::list) {
      error(node.at, "'" + key + "' must be a list" + found(node));
      return false;
    }
    for (const text::YamlNode& item : node.items) {
      std::string word;
      if (text(item, "each item of '" + key + "'", word)) out.push_back(std::move(word));
    }
    return true;
  }

  // Kubelet treats an empty text as not set.
  bool value(const text::YamlNode& node, const std::string& key, std::string& out) {
    if (node.kind == text::YamlNode::Kind::null) return false;
    return text(node, "'" + key + "'", out) && !out.empty();
  }

  bool value(const text::YamlNode& node, const std::string& key, DurationText& out) {
    if (node.kind != text::YamlNode::Kind::null) return text(node, "'" + key + "'", out.text);
    error(node.at, "'" + key + "' has no value; write a duration like \"5m0s\", or leave it out");
    return false;
  }

  bool value(const text::YamlNode& node, const std::string& key, NumberText& out) {
    if (node.kind == text::YamlNode::Kind::null) return false;
    if (node.kind == text::YamlNode::Kind::scalar && type_of(node) == JsonType::number) {
      out.text = node.text;
      return true;
    }
    error(node.at, "'" + key + "' must be a number" + found(node));
    return false;
  }

  bool value(const text::YamlNode& node, const std::string& key, bool& out) {
    if (node.kind == text::YamlNode::Kind::null) return false;
    if (node.kind == text::YamlNode::Kind::scalar && type_of(node) == JsonType::truth) {
      out = is_one_of(node.text, kTrue);
      return true;
    }
    error(node.at, "'" + key + "' must be true or false" + found(node));
    return false;
  }

  bool value(const text::YamlNode& node, const std::string& key, std::int32_t& out) {
    if (node.kind == text::YamlNode::Kind::null) return false;
    if (node.kind == text::YamlNode::Kind::scalar && type_of(node) == JsonType::number) {
      const double number = yaml_number(node.text).value_or(0.5);
      if (number >= std::numeric_limits<std::int32_t>::min() &&
          number <= std::numeric_limits<std::int32_t>::max() && std::trunc(number) == number) {
        out = static_cast<std::int32_t>(number);
        return true;
      }
    }
    error(node.at,
          "'" + key + "' must be a whole number from -2147483648 to 2147483647" + found(node));
    return false;
  }

  bool text(const text::YamlNode& node, const std::string& what, std::string& out) {
    if (node.kind != text::YamlNode::Kind::scalar) {
      error(node.at, what + " must be text" + found(node));
      return false;
    }
    if (type_of(node) != JsonType::text) {
      error(node.at,
            what + " must be text" + found(node) + "; put it in quotes: \"" + node.text + "\"");
      return false;
    }
    out = node.text;
    return true;
  }

  const std::string& file_;
  std::vector<text::Finding>& errors_;
};

}  // namespace

KubeletSettings read_kubelet_config(std::string_view text, const std::string& file,
                                    std::vector<text::Finding>& errors) {
  std::vector<text::Diagnostic> problems;
  const std::optional<text::YamlNode> root = text::parse_yaml(text, problems);
  for (text::Diagnostic& each : problems)
    errors.push_back({{file, each.at}, std::move(each.message)});
  if (!root) return {};
  if (root->kind != text::YamlNode::Kind::map) {
    errors.push_back({{file, root->at}, "the file must be a map, found " + text::describe(*root)});
    return {};
  }
  return SettingsReader(file, errors).read(*root);
}

}  // namespace forestall::intake
