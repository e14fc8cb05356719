// SPDX-License-Identifier: Apache-2.0
// Serves rankings of a running agent. Each request runs on a separate thread at a lower priority,
// with its own observer and its own table of descriptors. Reading ten thousand cgroups therefore
// takes no descriptors from the kill ladder.
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
  // The configuration in force; null: no evaluation yet. Called from the server's thread.
  using ConfigInForce = std::function<std::shared_ptr<const Config>()>;

  // `tree` must outlive this.
  static Result<std::unique_ptr<HostRankDoor>> create(const kernel::CgroupTree& tree,
                                                      ConfigInForce config);
  // Waits for the request in progress, but not for a disk walk.
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
  // Owned by the thread while it runs; by the server after done_ is readable, or without a thread.
  std::optional<Result<v1::RankResponse>> answer_;
  std::thread thread_;
};

}  // namespace forestall::cli
