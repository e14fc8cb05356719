// SPDX-License-Identifier: Apache-2.0
// Ranks the workloads for clients of a running agent, on a thread of lower priority than the loop.
// Each request has its own observer. The thread has its own descriptor table, so that reading ten
// thousand cgroups takes no descriptor from the kill ladder.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "service/agent_service.h"

namespace forestall::daemon {

class HostRankService final : public service::RankService {
 public:
  // The configuration in force; null: there was no evaluation yet. Called from request_ranking()'s
  // thread.
  using ConfigInForce = std::function<std::shared_ptr<const Config>()>;

  // `tree` must outlive this.
  static Result<std::unique_ptr<HostRankService>> create(const kernel::CgroupTree& tree,
                                                         ConfigInForce config);
  // Waits for the request under way, and cancels its disk walk.
  ~HostRankService() override;

  [[nodiscard]] bool request_ranking(const v1::RankRequest& request) override;
  [[nodiscard]] int fd() const override { return done_.get(); }
  [[nodiscard]] std::optional<Result<v1::RankResponse>> answer() override;

 private:
  HostRankService(const kernel::CgroupTree& tree, ConfigInForce config, UniqueFd done,
                  UniqueFd stop)
      : tree_(tree), config_(std::move(config)), done_(std::move(done)), stop_(std::move(stop)) {}
  void run(const v1::RankRequest& request, const std::shared_ptr<const Config>& config);

  const kernel::CgroupTree& tree_;
  const ConfigInForce config_;
  const UniqueFd done_;
  const UniqueFd stop_;
  // Owned by the thread while it runs, and by the caller after done_ or without a thread.
  std::optional<Result<v1::RankResponse>> answer_;
  std::thread thread_;
};

}  // namespace forestall::daemon
