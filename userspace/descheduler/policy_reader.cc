// SPDX-License-Identifier: Apache-2.0
#include "descheduler/policy_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "text/json_number.h"
#include "text/yaml_json.h"

namespace forestall::descheduler {
namespace {

using text::ScalarType;
using text::YamlNode;

constexpr std::string_view kSmallInteger = "a whole number of 32 bits";

std::string expected(std::string_view path, std::string_view wanted, const YamlNode& found) {
  return fmt::format("{}: expected {}, found {}", path, wanted, text::describe(found));
}

template <typename Number>
std::optional<Number> number_of(const YamlNode& node) {
  Number number = 0;
  if (text::scalar_type(node) != ScalarType::number) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (text::read_real(node.text, number)) return std::nullopt;
  } else {
    if (text::read_integer(node.text, number)) return std::nullopt;
  }
  return number;
}

}  // namespace

void PolicyErrors::refuse(text::Position at, const std::string& message) {
  refused_.push_back(findings_.errors.size());
  add(at, scope_ + message);
}

void PolicyErrors::add(text::Position at, const std::string& message) {
  findings_.errors.push_back({{file_, at}, message});
}

void PolicyErrors::warn(text::Position at, const std::string& message) {
  findings_.warnings.push_back({{file_, at}, message});
}

void PolicyErrors::add_undecoded(text::Position at, const std::string& message) {
  undecoded_ = true;
  add(at, message);
}

void PolicyErrors::begin_part() {
  undecoded_ = false;
  refused_.clear();
}

void PolicyErrors::end_part() {
  if (undecoded_) {
    for (auto each = refused_.rbegin(); each != refused_.rend(); ++each) {
      findings_.errors.erase(findings_.errors.begin() + static_cast<std::ptrdiff_t>(*each));
    }
  }
  begin_part();
}

void PolicyErrors::sort() {
  std::stable_sort(findings_.errors.begin() + static_cast<std::ptrdiff_t>(begin_),
                   findings_.errors.end(),
                   [](const auto& a, const auto& b) { return a.origin.at < b.origin.at; });
}

PolicyMap::PolicyMap(const YamlNode* node, PolicyErrors& errors, std::string path)
    : errors_(errors), path_(std::move(path)) {
  if (node == nullptr || node->kind == YamlNode::Kind::null) return;
  if (node->kind != YamlNode::Kind::map) {
    const std::string name = path_.empty() ? "" : path_.substr(0, path_.size() - 1);
    errors_.add_undecoded(node->at, fmt::format("{}{}expected a map, found {}", name,
                                                name.empty() ? "" : ": ", text::describe(*node)));
    return;
  }
  node_ = node;
}

const YamlNode* PolicyMap::find(std::string_view key) {
  read_.emplace(key);
  if (node_ == nullptr) return nullptr;
  for (const text::YamlEntry& each : node_->entries) {
    if (each.key != key) continue;
    const bool null = each.value.kind == YamlNode::Kind::null ||
                      (each.value.kind == YamlNode::Kind::scalar &&
                       text::scalar_type(each.value) == ScalarType::null);
    return null ? nullptr : &each.value;
  }
  return nullptr;
}

text::Position PolicyMap::at(std::string_view key) const {
  if (node_ == nullptr) return {};
  for (const text::YamlEntry& each : node_->entries) {
    if (each.key == key) return each.value.at;
  }
  return node_->at;
}

std::optional<std::string> PolicyMap::scalar(const YamlNode& node, std::string_view key) {
  if (node.kind == YamlNode::Kind::scalar && text::scalar_type(node) == ScalarType::string) {
    return node.text;
  }
  errors_.add_undecoded(node.at, expected(path_ + std::string(key), "a string", node));
  return std::nullopt;
}

std::optional<std::string> PolicyMap::text(std::string_view key) {
  const YamlNode* const node = find(key);
  return node == nullptr ? std::nullopt : scalar(*node, key);
}

bool PolicyMap::boolean(std::string_view key, bool otherwise) {
  const YamlNode* const node = find(key);
  if (node == nullptr) return otherwise;
  if (const auto truth = text::boolean_of(*node)) return *truth;
  errors_.add_undecoded(node->at, expected(path_ + std::string(key), "true or false", *node));
  return otherwise;
}

template <typename Number>
std::optional<Number> PolicyMap::number_at(std::string_view key, std::string_view wanted) {
  const YamlNode* const node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto number = number_of<Number>(*node);
  if (!number) errors_.add_undecoded(node->at, expected(path_ + std::string(key), wanted, *node));
  return number;
}

std::optional<std::uint64_t> PolicyMap::amount(std::string_view key) {
  return number_at<std::uint64_t>(key, "a whole number from 0");
}

std::optional<std::int64_t> PolicyMap::integer(std::string_view key) {
  return number_at<std::int64_t>(key, "a whole number");
}

std::optional<std::int32_t> PolicyMap::small_integer(std::string_view key) {
  return number_at<std::int32_t>(key, kSmallInteger);
}

std::optional<double> PolicyMap::number(std::string_view key) {
  return number_at<double>(key, "a number");
}

const std::vector<YamlNode>& PolicyMap::list(std::string_view key) {
  static const std::vector<YamlNode> kNone;
  const YamlNode* const node = find(key);
  if (node == nullptr) return kNone;
  if (node->kind == YamlNode::Kind::list) return node->items;
  errors_.add_undecoded(node->at, expected(path_ + std::string(key), "a list", *node));
  return kNone;
}

std::vector<std::string> PolicyMap::texts(std::string_view key) {
  std::vector<std::string> all;
  for (const YamlNode& each : list(key)) {
    if (auto word = scalar(each, key)) all.push_back(std::move(*word));
  }
  return all;
}

std::vector<std::int32_t> PolicyMap::small_integers(std::string_view key) {
  std::vector<std::int32_t> all;
  for (const YamlNode& each : list(key)) {
    if (const auto number = number_of<std::int32_t>(each)) {
      all.push_back(*number);
    } else {
      errors_.add_undecoded(each.at, expected(path_ + std::string(key), kSmallInteger, each));
    }
  }
  return all;
}

std::optional<std::vector<std::pair<std::string, double>>> PolicyMap::percents(
    std::string_view key) {
  const YamlNode* const node = find(key);
  if (node == nullptr) return std::nullopt;
  if (node->kind != YamlNode::Kind::map) {
    errors_.add_undecoded(node->at, expected(path_ + std::string(key), "a map", *node));
    return std::nullopt;
  }
  std::vector<std::pair<std::string, double>> all;
  for (const text::YamlEntry& each : node->entries) {
    if (const auto percent = number_of<double>(each.value)) {
      all.emplace_back(each.key, *percent);
    } else {
      errors_.add_undecoded(each.value.at, expected(path_ + std::string(key) + "." + each.key,
                                                    "a number", each.value));
    }
  }
  return all;
}

std::optional<rebalance::LabelSelector> PolicyMap::selector(std::string_view key,
                                                            const std::string& refusal) {
  if (find(key) == nullptr) return std::nullopt;
  PolicyMap given = map(key);
  rebalance::LabelSelector out;
  if (const YamlNode* const equal = given.find("matchLabels"); equal != nullptr) {
    PolicyMap labels(equal, errors_, given.path_ + "matchLabels.");
    for (const text::YamlEntry& each : equal->entries) {
      out.requirements.push_back(
          {each.key, rebalance::Operator::in, {labels.text(each.key).value_or("")}});
      if (const auto problem = rebalance::problem_of(out.requirements.back())) {
        errors_.refuse(each.at, refusal + *problem);
      }
    }
  }
  for (const YamlNode& item : given.list("matchExpressions")) {
    PolicyMap expression(&item, errors_, given.path_ + "matchExpressions.");
    rebalance::Requirement requirement;
    requirement.key = expression.text("key").value_or("");
    requirement.values = expression.texts("values");
    const std::string word = expression.text("operator").value_or("");
    expression.finish();
    const auto op = rebalance::parse_operator(word);
    const bool known =
        op && *op != rebalance::Operator::greater_than && *op != rebalance::Operator::less_than;
    if (!known) {
      expression.error("operator", fmt::format("{}\"{}\" is not a valid label selector operator",
                                               refusal, word));
      continue;
    }
    requirement.op = *op;
    if (const auto problem = rebalance::problem_of(requirement)) {
      errors_.refuse(item.at, refusal + *problem);
    }
    out.requirements.push_back(std::move(requirement));
  }
  given.finish();
  return out;
}

PolicyMap PolicyMap::map(std::string_view key) {
  return PolicyMap(find(key), errors_, path_ + std::string(key) + ".");
}

void PolicyMap::finish() {
  if (node_ == nullptr) return;
  for (const text::YamlEntry& each : node_->entries) {
    if (read_.contains(each.key)) continue;
    errors_.add_undecoded(
        each.at, fmt::format("strict decoding error: unknown field \"{}{}\"", path_, each.key));
  }
}

}  // namespace forestall::descheduler
