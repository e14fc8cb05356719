// SPDX-License-Identifier: Apache-2.0
// Samples of the node: from an agent if one answers, otherwise from this host's files.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/options.h"
#include "forestall/internal/top.pb.h"
#include "kernel/cgroup_tree.h"
#include "top/agent_source.h"
#include "top/host_source.h"
#include "top/pressure_source.h"
#include "top/process_list_source.h"

namespace forestall::top {

// Thread rule: one thread.
class PictureSources {
 public:
  // If `cancel_fd` is readable, a sample in progress is aborted. Without an agent, `config`
  // applies. `alone`: do not connect to an agent.
  PictureSources(const cli::Options& options, Config config, bool alone, int cancel_fd);

  // Samples now, with the processes of the workload at `opened` unless that is empty. Errors:
  // neither an agent nor this host's files are readable.
  [[nodiscard]] Result<internal::TopReport> read(const std::string& ranking,
                                                 const std::string& opened = "");

  // As in AgentSource.
  [[nodiscard]] int news_fd() const { return agent_.news_fd(); }
  [[nodiscard]] short news_events() const { return agent_.news_events(); }
  [[nodiscard]] bool take_news() { return agent_.take_news(); }

 private:
  [[nodiscard]] Result<void> read_alone(const std::string& ranking, internal::TopReport& report);

  const std::string socket_;
  const bool alone_;
  const Config config_;
  Result<kernel::CgroupTree> tree_;
  AgentSource agent_;
  bool agent_seen_ = false;
  std::unique_ptr<HostSource> own_;
  PressureSource pressure_;
  ProcessListSource processes_;
};

}  // namespace forestall::top
