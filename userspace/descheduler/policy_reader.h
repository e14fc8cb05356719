// SPDX-License-Identifier: Apache-2.0
// Typed access to the YAML tree of a DeschedulerPolicy. Like the decoder of Kubernetes, it takes a
// null as a missing value and does not convert between types.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rebalance/selector.h"
#include "text/diagnostic.h"
#include "text/yaml_tree.h"

namespace forestall::descheduler {

// The problems of one file. The descheduler decodes a file before it checks the values.
class PolicyErrors {
 public:
  PolicyErrors(const std::string& file, text::Findings& findings)
      : file_(file), findings_(findings), begin_(findings.errors.size()) {}

  // A value that is decoded, but refused. The scope begins its message: "in profile web: ".
  void refuse(text::Position at, const std::string& message);
  // A value that is refused before the checks of a profile.
  void add(text::Position at, const std::string& message);
  // A value of a wrong type, or an unknown field.
  void add_undecoded(text::Position at, const std::string& message);

  void warn(text::Position at, const std::string& message);

  void set_scope(std::string scope) { scope_ = std::move(scope); }
  // From here to end_part() the values of one plugin are read. If one of them cannot be decoded,
  // the others are not checked.
  void begin_part();
  void end_part();
  // Brings the errors into the order of the file.
  void sort();
  [[nodiscard]] std::size_t count() const { return findings_.errors.size(); }

 private:
  const std::string& file_;
  text::Findings& findings_;
  const std::size_t begin_;  // earlier findings are of other files
  std::string scope_;
  bool undecoded_ = false;            // in the part
  std::vector<std::size_t> refused_;  // in the part; indexes in ascending order
};

// One map. Every value is read by its key; finish() then refuses the keys that were not read.
class PolicyMap {
 public:
  // A null is an empty map; another kind is an error. `node` may be null. `path` begins the names
  // of unknown fields: "namespaces.".
  PolicyMap(const text::YamlNode* node, PolicyErrors& errors, std::string path = "");

  // The value, unless it is missing or null.
  [[nodiscard]] const text::YamlNode* find(std::string_view key);
  // Of the value, or of the map.
  [[nodiscard]] text::Position at(std::string_view key) const;
  [[nodiscard]] bool given() const { return node_ != nullptr; }

  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  [[nodiscard]] bool boolean(std::string_view key, bool otherwise = false);
  [[nodiscard]] std::optional<std::uint64_t> amount(std::string_view key);
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key);
  [[nodiscard]] std::optional<std::int32_t> small_integer(std::string_view key);
  [[nodiscard]] std::optional<double> number(std::string_view key);
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  [[nodiscard]] std::vector<std::int32_t> small_integers(std::string_view key);
  // Resource to percentage. Nothing: missing.
  [[nodiscard]] std::optional<std::vector<std::pair<std::string, double>>> percents(
      std::string_view key);
  // metav1.LabelSelector. `refusal` begins the message about an invalid one.
  [[nodiscard]] std::optional<rebalance::LabelSelector> selector(std::string_view key,
                                                                 const std::string& refusal);
  [[nodiscard]] PolicyMap map(std::string_view key);
  [[nodiscard]] const std::vector<text::YamlNode>& list(std::string_view key);

  void error(std::string_view key, const std::string& message) { errors_.refuse(at(key), message); }
  // Refuses the keys that were not read.
  void finish();

  [[nodiscard]] PolicyErrors& errors() { return errors_; }

 private:
  std::optional<std::string> scalar(const text::YamlNode& node, std::string_view key);
  template <typename Number>
  std::optional<Number> number_at(std::string_view key, std::string_view wanted);

  const text::YamlNode* node_ = nullptr;
  PolicyErrors& errors_;
  std::string path_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace forestall::descheduler
