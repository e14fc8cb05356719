// SPDX-License-Identifier: Apache-2.0
// The observations of `forestall rules`: JSON Lines, one evaluation each. A line changes what the
// lines before it had: a reading that it leaves out remains.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/rule_observation.h"
#include "text/diagnostic.h"
#include "text/json_tree.h"

namespace forestall::intake {

// A change of the directory of drop-ins.
struct DropInChange {
  std::string file;
  std::optional<std::string> text;  // nothing: the file was removed
};

struct ObservationLine {
  std::uint32_t line = 0;  // in the file, from 1
  rulesets::RuleObservation observation;
  std::chrono::nanoseconds hook_duration{0};  // of a prekill hook that begins now
  std::vector<DropInChange> drop_ins;         // before this evaluation
  std::optional<text::JsonNode> managed_oom;  // `managedOom`, a list; messages of PID 1
};

// The cgroups of the file: their readings, and how they answer to what is done to them.
class RuleObservations {
 public:
  // `file` is the name in findings.
  RuleObservations(std::string file, std::string text);

  // Reads the next line that is not blank. Nothing at the end, and after a line that has errors.
  [[nodiscard]] std::optional<ObservationLine> next(text::Findings& findings);

  // Whether a SIGKILL finds a process in the cgroup. Consumes the answer "ok" of the file.
  [[nodiscard]] bool kill(std::string_view cgroup);
  // An action wrote memory.high or memory.high.tmp: later lines read it.
  void wrote(std::string_view cgroup, std::string_view file, std::int64_t value);

  // The path in the form of the file, which may leave out the first slash.
  [[nodiscard]] std::string shown(std::string_view cgroup) const;

 private:
  enum class KillAnswer : std::uint8_t { always, once, fails };

  struct Entry {
    rulesets::Cgroup cgroup;
    KillAnswer kill = KillAnswer::always;
  };
  class LineReader;

  const std::string file_;
  const std::string text_;
  std::size_t offset_ = 0;
  std::uint32_t line_ = 0;
  bool failed_ = false;

  std::optional<std::chrono::nanoseconds> time_;
  rulesets::Host host_;
  std::map<std::string, Entry, std::less<>> cgroups_;
  std::uint64_t next_id_ = 1;
  bool without_slash_ = false;
};

}  // namespace forestall::intake
