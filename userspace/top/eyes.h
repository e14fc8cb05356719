// SPDX-License-Identifier: Apache-2.0
// One picture of the node after the other: an agent's where one answers, else one's own.
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
  // `cancel_fd`: readable, a look under way is given up. Without an agent `config` is what is in
  // force. `alone`: no agent is asked.
  Eyes(const cli::Options& options, Config config, bool alone, int cancel_fd);

  // Looks now. An error: neither an agent nor this host tells anything.
  [[nodiscard]] Result<v1::TopReport> look(const std::string& ranking);

  // As AgentEye has them.
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
