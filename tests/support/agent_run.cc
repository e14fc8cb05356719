// SPDX-License-Identifier: Apache-2.0
#include "support/agent_run.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "messages/json.h"

namespace forestall::test {
namespace {

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Tests are about the thresholds that they set. With the backstop, this host's memory would decide
// too.
std::string without_backstop(const std::string& config) {
  if (config.find("untilOom:") != std::string::npos) return config;
  return config + (config.empty() || config.ends_with('\n') ? "" : "\n") +
         "untilOom: {available: 0%}\n";
}

}  // namespace

std::string forestall_executable() {
  const char* given = std::getenv("FORESTALL_BIN");
  return given != nullptr ? given : FORESTALL_EXECUTABLE;
}

const std::vector<std::string>& wake_features() {
  static const std::vector<std::string> kFeatures{
      "bpf-timer",    "bpf-charge",    "bpf-reclaim", "bpf-stall",   "bpf-oom",
      "bpf-oom-path", "usage-eventfd", "memory-high", "psi-trigger", "poll"};
  return kFeatures;
}

std::vector<std::string> all_wakes_but(const std::string& kept) {
  std::vector<std::string> others;
  std::copy_if(wake_features().begin(), wake_features().end(), std::back_inserter(others),
               [&](const std::string& each) { return each != kept; });
  return others;
}

Ran run_forestall(const std::vector<std::string>& arguments) {
  const TempTree directory;
  std::string command = quoted(forestall_executable());
  for (const std::string& each : arguments) command += " " + quoted(each);
  command += " >" + quoted(directory / "out") + " 2>" + quoted(directory / "err");
  const int status = std::system(command.c_str());
  if (!WIFEXITED(status)) throw std::runtime_error("did not exit: " + command);
  return {WEXITSTATUS(status), read_text(directory / "out"), read_text(directory / "err")};
}

std::optional<std::string> missing_feature(const std::string& feature) {
  // Run once: it loads all BPF programs, which takes an emulated machine six seconds.
  static const Ran doctor = run_forestall({"doctor", "--output", "text"});
  const auto at = doctor.output.find("\n  " + feature + " ");
  if (at == std::string::npos) return "doctor does not list " + feature;
  const auto line = doctor.output.substr(at + 1, doctor.output.find('\n', at + 1) - at - 1);
  if (line.find(" in-use") != std::string::npos) return std::nullopt;
  return line;
}

AgentRun::AgentRun(const std::string& config, std::vector<std::string> disabled,
                   std::vector<std::string> more_arguments, const std::string& manifest) {
  rewrite_config(config);
  if (!manifest.empty()) directory_.write("manifest.yaml", manifest);
  std::vector<std::string> arguments{"--config", directory_ / "config.yaml"};
  for (std::string& feature : disabled) {
    arguments.push_back("--disable-feature");
    arguments.push_back(std::move(feature));
  }
  for (std::string& each : more_arguments) arguments.push_back(std::move(each));
  auto started = cli::AgentProcess::start(forestall_executable(), arguments, directory_.path());
  if (started) {
    process_.emplace(std::move(*started));
  } else {
    failure_ = started.error();
  }
}

void AgentRun::rewrite_config(const std::string& config) const {
  directory_.write("config.yaml", without_backstop(config));
}

std::optional<v1::Record> AgentRun::next_record(MonotonicTime deadline) {
  const auto line = process_->next_record(deadline);
  if (!line) return std::nullopt;
  v1::Record record;
  if (const auto read = messages::from_json(*line, record); !read) {
    throw std::runtime_error("record is not JSON: " + read.error().text() + "\n" + *line);
  }
  return record;
}

std::optional<v1::Record> AgentRun::wait_kill(Duration patience) {
  return wait_record(
      [](const v1::Record& record) {
        return record.decision().action() == v1::Decision::KILL && record.has_outcome();
      },
      patience);
}

}  // namespace forestall::test
