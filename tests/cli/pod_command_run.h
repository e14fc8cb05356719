// SPDX-License-Identifier: Apache-2.0
// The offline subcommands, run on the files of tests/data/kubernetes.
#pragma once

#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "messages/json.h"
#include "support/agent_run.h"

namespace forestall::test {

[[nodiscard]] inline std::string kubernetes_file(const std::string& name) {
  return std::string(FORESTALL_TEST_DATA "/kubernetes/") + name;
}

// The arguments for the pods and statistics of one example ("disk", "memory", "node"), which do not
// depend on the configuration of this host.
[[nodiscard]] inline std::vector<std::string> rank_arguments(const std::string& example,
                                                             const std::string& signal) {
  return {"rank",
          "--config",
          kubernetes_file("empty.yaml"),
          "--pods",
          kubernetes_file(example + ".pods.json"),
          "--stats",
          kubernetes_file(example + ".stats.json"),
          "--signal",
          signal};
}

// The complete output of the command with --output json; empty after a failure.
template <typename Report>
[[nodiscard]] Report json_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--output", "json"});
  const Ran ran = run_forestall(arguments);
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  Report report;
  const auto read = messages::from_json(ran.output, report);
  EXPECT_TRUE(read) << read.error().text() << "\n" << ran.output;
  return report;
}

// The expected text output of a command.
[[nodiscard]] inline std::string golden(const std::string& name) {
  return read_text(kubernetes_file(name));
}

}  // namespace forestall::test
