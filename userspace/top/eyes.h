// SPDX-License-Identifier: Apache-2.0
// Samples of the node: from an agent if one answers, otherwise from this host's files.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/options.h"
#include "forestall/v1/top.pb.h"
#include "kernel/cgroup_tree.h"
#include "top/agent_eye.h"
#include "top/own_eye.h"
#include "top/pressure_eye.h"

namespace forestall::top {

// Thread rule: one thread.
class Eyes {
 public:
  // If `cancel_fd` is readable, a sample in progress is aborted. Without an agent, `config`
  // applies. `alone`: do not connect to an agent.
  Eyes(const cli::Options& options, Config config, bool alone, int cancel_fd);

  // Samples now. Errors: neither an agent nor this host's files are readable.
  [[nodiscard]] Result<v1::TopReport> look(const std::string& ranking);

  // As in AgentEye.
  [[nodiscard]] int news_fd() const { return agent_.news_fd(); }
  [[nodiscard]] short news_events() const { return agent_.news_events(); }
  [[nodiscard]] bool take_news() { return agent_.take_news(); }

 private:
  [[nodiscard]] Result<void> look_alone(const std::string& ranking, v1::TopReport& report);

  const std::string socket_;
  const bool alone_;
  const Config config_;
  Result<kernel::CgroupTree> tree_;
  AgentEye agent_;
  bool agent_seen_ = false;
  std::unique_ptr<OwnEye> own_;
  PressureEye pressure_;
};

}  // namespace forestall::top
