// SPDX-License-Identifier: Apache-2.0
// Reads single values of rulesets (proto/forestall/v1/ruleset.proto).
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "intake/report.h"
#include "model/ruleset.h"

namespace forestall::intake {

// Whole seconds within the bounds, both included.
[[nodiscard]] Result<std::int64_t> parse_whole_seconds(std::string_view text, std::int64_t min,
                                                       std::int64_t max);
// A quantity of bytes, or a whole percentage from 0% to 100%.
[[nodiscard]] Result<rulesets::SizeOrPercent> parse_size_or_percent(std::string_view text);
// A percentage such as "12.5%", 0 to 100.
[[nodiscard]] Result<double> parse_rule_percent(std::string_view text);
// A decimal number such as "0.85", 0 to 1000.
[[nodiscard]] Result<double> parse_ratio(std::string_view text);
// An absolute glob of cgroups.
[[nodiscard]] Result<rulesets::CgroupPattern> parse_cgroup_pattern(std::string_view text);

// The values of one detector or action, whose path is `at`. A value that is not given leaves the
// target as it is, except where `require` has reported it.
class RuleValues {
 public:
  RuleValues(std::string at, Report& report) : at_(std::move(at)), report_(report) {}

  [[nodiscard]] std::string path(const std::string& key) const { return at_ + "." + key; }
  [[nodiscard]] Report& report() { return report_; }

  void require(bool given, const std::string& key, const std::string& advice) {
    if (!given) report_.missing(at_, key, advice);
  }
  void cgroups(const google::protobuf::RepeatedPtrField<std::string>& given,
               rulesets::CgroupPatterns& out, const std::string& key = "cgroups");
  void seconds(bool given, const std::string& text, const std::string& key, std::int64_t min,
               std::int64_t max, std::int64_t& out);
  void size(bool given, const std::string& text, const std::string& key,
            rulesets::SizeOrPercent& out);
  // The index of the word among `words`; the first one if none is given.
  [[nodiscard]] std::size_t word(bool given, const std::string& text, const std::string& key,
                                 const std::vector<std::string>& words);
  template <typename T, typename Parse, typename Out>
  void take(bool given, const std::string& text, const std::string& key, Parse parse, Out& out) {
    if (!given) return;
    if (const auto value = report_.take(parse(text), path(key), key)) out = static_cast<T>(*value);
  }

 private:
  std::string at_;
  Report& report_;
};

}  // namespace forestall::intake
