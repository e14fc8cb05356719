// SPDX-License-Identifier: Apache-2.0
// Ranks the workloads for whoever asks a running agent, apart from all that the agent does: on a
// thread of its own and at a lower priority, with an observer of its own that is made for each
// question, and with a table of descriptors of its own, so that reading ten thousand cgroups takes
// none from the kill ladder.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "api/agent_service.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/config.h"

namespace forestall::cli {

class HostRankDoor final : public api::RankDoor {
 public:
  // The configuration in force; null: the agent has not looked yet. Called from the asker's thread.
  using ConfigInForce = std::function<std::shared_ptr<const Config>()>;

  // `tree` outlives this.
  static Result<std::unique_ptr<HostRankDoor>> create(const kernel::CgroupTree& tree,
                                                      ConfigInForce config);
  // Waits for the question under way, but for no disk.
  ~HostRankDoor() override;

  [[nodiscard]] bool ask(const v1::RankRequest& request) override;
  [[nodiscard]] int fd() const override { return done_.get(); }
  [[nodiscard]] std::optional<Result<v1::RankResponse>> answer() override;

 private:
  HostRankDoor(const kernel::CgroupTree& tree, ConfigInForce config, UniqueFd done, UniqueFd stop)
      : tree_(tree), config_(std::move(config)), done_(std::move(done)), stop_(std::move(stop)) {}
  void run(const v1::RankRequest& request, const std::shared_ptr<const Config>& config);

  const kernel::CgroupTree& tree_;
  const ConfigInForce config_;
  const UniqueFd done_;
  const UniqueFd stop_;
  // The thread's while it runs, the asker's when done_ has told that it is over, or without one.
  std::optional<Result<v1::RankResponse>> answer_;
  std::thread thread_;
};

}  // namespace forestall::cli
