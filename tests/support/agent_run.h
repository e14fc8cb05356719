// SPDX-License-Identifier: Apache-2.0
// The real agent with a configuration of the test, in a directory of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/agent_process.h"
#include "forestall/v1/record.pb.h"
#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::test {

// Path of the forestall executable: $FORESTALL_BIN in a VM, otherwise the one of this build.
[[nodiscard]] std::string forestall_executable();

// Features that wake the agent, as --disable-feature names them.
[[nodiscard]] const std::vector<std::string>& wake_features();
// All of those except `kept` (and `bpf` itself, unless kept uses BPF).
[[nodiscard]] std::vector<std::string> all_wakes_but(const std::string& kept);

// Output and exit code of a command.
struct Ran {
  int exit_code = -1;
  std::string output;  // standard output
  std::string errors;  // standard error
};
[[nodiscard]] Ran run_forestall(const std::vector<std::string>& arguments);

// Nothing if this host supports the feature, otherwise the line of `doctor` with the reason.
[[nodiscard]] std::optional<std::string> missing_feature(const std::string& feature);

class AgentRun {
 public:
  // `manifest`, if not empty, is written to manifest.yaml next to the configuration.
  explicit AgentRun(const std::string& config, std::vector<std::string> disabled = {},
                    std::vector<std::string> more_arguments = {}, const std::string& manifest = "");

  // Why the agent did not start; nothing if it did.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  // REQUIRES: !failure().
  [[nodiscard]] cli::AgentProcess& process() { return *process_; }
  [[nodiscard]] const TempTree& directory() const { return directory_; }
  // Replaces the configuration file; the agent reads it on SIGHUP.
  void rewrite_config(const std::string& config) const;

  // The next record for which `wanted` is true; nothing if none comes in time.
  template <typename Predicate>
  std::optional<v1::Record> wait_record(Predicate wanted, Duration patience = kPatience) {
    const MonotonicTime deadline = SystemClock().now() + patience;
    while (auto record = next_record(deadline)) {
      if (wanted(*record)) return record;
    }
    return std::nullopt;
  }
  // Next record of a kill with its outcome.
  std::optional<v1::Record> wait_kill(Duration patience = kPatience);

 private:
  std::optional<v1::Record> next_record(MonotonicTime deadline);
  TempTree directory_;
  std::optional<Error> failure_;
  std::optional<cli::AgentProcess> process_;
};

}  // namespace forestall::test
