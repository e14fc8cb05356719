// SPDX-License-Identifier: Apache-2.0
#include "rebalance/selector.h"

#include <algorithm>

#include "base/parse.h"
#include "base/quotes.h"

namespace forestall::rebalance {
namespace {

constexpr std::string_view kNameField = "metadata.name";

bool has_value(const Requirement& requirement, std::string_view value) {
  return std::find(requirement.values.begin(), requirement.values.end(), value) !=
         requirement.values.end();
}

bool compares(const Requirement& requirement, std::string_view value) {
  if (requirement.values.size() != 1) return false;
  const auto left = parse_i64(value);
  const auto right = parse_i64(requirement.values.front());
  if (!left || !right) return false;
  return requirement.op == Operator::greater_than ? *left > *right : *left < *right;
}

bool matches_value(const Requirement& requirement, std::optional<std::string_view> value) {
  switch (requirement.op) {
    case Operator::in: return value && has_value(requirement, *value);
    case Operator::not_in: return !value || !has_value(requirement, *value);
    case Operator::exists: return value.has_value();
    case Operator::does_not_exist: return !value;
    case Operator::greater_than:
    case Operator::less_than: return value && compares(requirement, *value);
  }
  return false;
}

constexpr const char* kNameRule =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr const char* kValueRule =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
constexpr std::size_t kLabelSizeMax = 63;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Of the form that the name of a label and its value share.
bool is_label_word(std::string_view text) {
  return !text.empty() && is_alphanumeric(text.front()) && is_alphanumeric(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_label_value(std::string_view text) {
  return text.size() <= kLabelSizeMax && (text.empty() || is_label_word(text));
}

// Why apimachinery's IsQualifiedName() refuses the key; empty: it does not. The form of a domain
// before the slash is not checked.
std::string key_problem(std::string_view key) {
  const std::size_t slash = key.find('/');
  const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  std::string problem;
  if (slash == 0) problem = "prefix part must be non-empty";
  const auto add = [&](const char* more) {
    problem += (problem.empty() ? "" : "; ") + std::string(more);
  };
  if (name.empty()) add("name part must be non-empty");
  if (name.size() > kLabelSizeMax) add("name part must be no more than 63 bytes");
  if (!is_label_word(name)) add(kNameRule);
  return problem;
}

// As apimachinery prints a list that it refuses.
std::string list_text(const std::vector<std::string>& values) {
  if (values.empty()) return "null";
  std::string text = "[";
  for (const std::string& each : values)
    text += (text.size() > 1 ? "," : "") + in_double_quotes(each);
  return text + "]";
}

// Why the operator refuses the number of values, or a value that is no number.
std::optional<std::string> values_problem(const Requirement& requirement) {
  const std::vector<std::string>& values = requirement.values;
  const auto refused = [&](const char* why) {
    return "values: Invalid value: " + list_text(values) + ": " + why;
  };
  switch (requirement.op) {
    case Operator::in:
    case Operator::not_in:
      if (!values.empty()) return std::nullopt;
      return refused("for 'in', 'notin' operators, values set can't be empty");
    case Operator::exists:
    case Operator::does_not_exist:
      if (values.empty()) return std::nullopt;
      return refused("values set must be empty for exists and does not exist");
    case Operator::greater_than:
    case Operator::less_than:
      if (values.size() != 1) {
        return refused("for 'Gt', 'Lt' operators, exactly one value is required");
      }
      if (parse_i64(values.front())) return std::nullopt;
      return "values[0]: Invalid value: " + in_double_quotes(values.front()) +
             ": for 'Gt', 'Lt' operators, the value must be an integer";
  }
  return std::nullopt;
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool is_special(char c) {
  return c == '=' || c == '!' || c == '(' || c == ')' || c == ',' || c == '>' || c == '<';
}

// The text of a selector as tokens: words and operators.
class SelectorReader {
 public:
  explicit SelectorReader(std::string_view text) : rest_(text) { advance(); }

  [[nodiscard]] bool at_end() const { return token_.empty(); }
  [[nodiscard]] std::string_view token() const { return token_; }
  [[nodiscard]] bool at_word() const { return !at_end() && !is_special(token_.front()); }

  std::string_view take() {
    const std::string_view taken = token_;
    advance();
    return taken;
  }
  bool take_if(std::string_view wanted) {
    if (token_ != wanted) return false;
    advance();
    return true;
  }

 private:
  void advance() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
    std::size_t size = 0;
    if (rest_.starts_with("==") || rest_.starts_with("!=")) {
      size = 2;
    } else if (!rest_.empty() && is_special(rest_.front())) {
      size = 1;
    } else {
      while (size < rest_.size() && !is_special(rest_[size]) && !is_space(rest_[size])) ++size;
    }
    token_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }

  std::string_view rest_;
  std::string_view token_;
};

Error unexpected(const SelectorReader& reader, std::string_view wanted) {
  return error("unable to parse requirement: found '" + std::string(reader.token()) +
               "', expected: " + std::string(wanted));
}

// "(a,b)". Empty values are allowed between commas.
Result<std::vector<std::string>> read_values(SelectorReader& reader) {
  if (!reader.take_if("(")) return unexpected(reader, "'('");
  std::vector<std::string> values;
  for (;;) {
    values.emplace_back(reader.at_word() ? reader.take() : std::string_view());
    if (reader.take_if(")")) return values;
    if (!reader.take_if(",")) return unexpected(reader, "',' or ')'");
  }
}

Result<void> read_condition(SelectorReader& reader, Requirement& requirement) {
  const bool equals = reader.token() == "=" || reader.token() == "==";
  if (equals || reader.token() == "!=" || reader.token() == ">" || reader.token() == "<") {
    const std::string_view op = reader.take();
    requirement.op = equals       ? Operator::in
                     : op == "!=" ? Operator::not_in
                     : op == ">"  ? Operator::greater_than
                                  : Operator::less_than;
    // A missing value is the empty one.
    requirement.values.emplace_back(reader.at_word() ? reader.take() : std::string_view());
    return {};
  }
  if (reader.token() == "in" || reader.token() == "notin") {
    requirement.op = reader.take() == "in" ? Operator::in : Operator::not_in;
    requirement.values = TRY(read_values(reader));
    return {};
  }
  return unexpected(reader, "in, notin, =, ==, !=, gt, lt");
}

Result<Requirement> read_requirement(SelectorReader& reader) {
  Requirement requirement;
  const bool negated = reader.take_if("!");
  if (!reader.at_word()) return unexpected(reader, "!, identifier, or ','");
  requirement.key = std::string(reader.take());
  if (negated) {
    requirement.op = Operator::does_not_exist;
  } else if (!reader.at_end() && reader.token() != ",") {
    TRY(read_condition(reader, requirement));
  }
  if (const auto problem = problem_of(requirement)) return error(*problem);
  return requirement;
}

}  // namespace

std::optional<std::string_view> find_label(const Labels& labels, std::string_view key) {
  // Few labels have a key of the same size, so few texts are read.
  for (const auto& [known, value] : labels) {
    if (known == key) return value;
  }
  return std::nullopt;
}

std::optional<Operator> parse_operator(std::string_view word) {
  for (const Operator each :
       {Operator::in, Operator::not_in, Operator::exists, Operator::does_not_exist,
        Operator::greater_than, Operator::less_than}) {
    if (word == to_string(each)) return each;
  }
  return std::nullopt;
}

std::string_view to_string(Operator each) {
  switch (each) {
    case Operator::in: return "In";
    case Operator::not_in: return "NotIn";
    case Operator::exists: return "Exists";
    case Operator::does_not_exist: return "DoesNotExist";
    case Operator::greater_than: return "Gt";
    case Operator::less_than: return "Lt";
  }
  return "";
}

bool matches(const Requirement& requirement, const Labels& labels) {
  return matches_value(requirement, find_label(labels, requirement.key));
}

std::optional<std::string> problem_of(const Requirement& requirement) {
  std::vector<std::string> problems;
  if (const std::string problem = key_problem(requirement.key); !problem.empty()) {
    problems.push_back("key: Invalid value: " + in_double_quotes(requirement.key) + ": " + problem);
  }
  if (auto problem = values_problem(requirement)) problems.push_back(std::move(*problem));
  for (std::size_t i = 0; i < requirement.values.size(); ++i) {
    if (is_label_value(requirement.values[i])) continue;
    problems.push_back("values[" + std::to_string(i) + "][" + requirement.key +
                       "]: Invalid value: " + in_double_quotes(requirement.values[i]) + ": " +
                       kValueRule);
  }
  if (problems.empty()) return std::nullopt;
  if (problems.size() == 1) return problems.front();
  std::string all = "[";
  for (const std::string& each : problems) all += (all.size() > 1 ? ", " : "") + each;
  return all + "]";
}

bool matches(const LabelSelector& selector, const Labels& labels) {
  return std::all_of(selector.requirements.begin(), selector.requirements.end(),
                     [&](const Requirement& each) { return matches(each, labels); });
}

Result<LabelSelector> parse_selector(std::string_view text) {
  LabelSelector selector;
  SelectorReader reader(text);
  while (!reader.at_end()) {
    selector.requirements.push_back(TRY(read_requirement(reader)));
    if (reader.at_end()) break;
    if (!reader.take_if(",")) return unexpected(reader, "',' or 'end of string'");
    if (reader.at_end()) return unexpected(reader, "identifier after ','");
  }
  return selector;
}

bool matches(const NodeSelectorTerm& term, std::string_view node_name, const Labels& labels) {
  if (term.expressions.empty() && term.fields.empty()) return false;
  for (const Requirement& each : term.expressions) {
    if (values_problem(each) || !matches(each, labels)) return false;
  }
  for (const Requirement& each : term.fields) {
    const bool comparable = each.op == Operator::in || each.op == Operator::not_in;
    if (!comparable || each.values.size() != 1) return false;
    const auto value = each.key == kNameField ? node_name : std::string_view();
    if (!matches_value(each, value)) return false;
  }
  return true;
}

}  // namespace forestall::rebalance
