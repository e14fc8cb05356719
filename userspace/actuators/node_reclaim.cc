// SPDX-License-Identifier: Apache-2.0
#include "actuators/node_reclaim.h"

#include <string>
#include <utility>

namespace forestall::actuators {
namespace {

void remove_dead(clients::ContainerRuntime& runtime, NodeReclaimResult& result) {
  auto removed = runtime.remove_dead_containers();
  if (removed) {
    result.dead = std::move(*removed);
  } else {
    result.failures.push_back(removed.error().in(to_string(ReclaimStep::dead_containers)));
  }
}

void remove_unused(clients::ContainerRuntime& runtime, NodeReclaimResult& result) {
  auto removed = runtime.remove_unused_images();
  if (removed) {
    result.images = std::move(*removed);
  } else {
    result.failures.push_back(removed.error().in(to_string(ReclaimStep::unused_images)));
  }
}

void take_step(clients::ContainerRuntime& runtime, ReclaimStep step, NodeReclaimResult& result) {
  switch (step) {
    case ReclaimStep::dead_containers: return remove_dead(runtime, result);
    case ReclaimStep::unused_images: return remove_unused(runtime, result);
  }
}

}  // namespace

NodeReclaim::NodeReclaim(Connect connect) : connect_(std::move(connect)) {}

Result<std::unique_ptr<NodeReclaim>> NodeReclaim::create(Connect connect) {
  std::unique_ptr<NodeReclaim> made(new NodeReclaim(std::move(connect)));
  made->thread_ =
      TRY(base::JobThread::create("forestall-node", [self = made.get()] { self->run(); }));
  return made;
}

Result<std::unique_ptr<NodeReclaim>> NodeReclaim::create(std::string_view endpoint,
                                                         clients::RuntimeOptions options) {
  TRY(clients::connect(endpoint, options));
  return create([endpoint = std::string(endpoint), options](int cancel_fd) {
    clients::RuntimeOptions own = options;
    own.cancel_fd = cancel_fd;
    return clients::connect(endpoint, std::move(own));
  });
}

void NodeReclaim::run() {
  result_ = {};
  result_.steps = std::move(steps_);
  result_.began = SystemClock().now();
  auto runtime = connect_(thread_->stop_fd());
  if (runtime) {
    for (const ReclaimStep step : result_.steps) take_step(**runtime, step, result_);
  } else {
    result_.failures.push_back(runtime.error());
  }
  result_.took = SystemClock().now() - result_.began;
}

bool NodeReclaim::start(std::vector<ReclaimStep> steps) {
  // After the job's end the steps belong to the loop again, even if the thread is not idle yet.
  if (steps.empty() || thread_->running()) return false;
  steps_ = std::move(steps);
  return thread_->start();
}

std::optional<NodeReclaimResult> NodeReclaim::take() {
  if (!thread_->finish()) return std::nullopt;
  return std::move(result_);
}

}  // namespace forestall::actuators
