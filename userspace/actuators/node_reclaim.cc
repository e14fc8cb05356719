// SPDX-License-Identifier: Apache-2.0
#include "actuators/node_reclaim.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <array>
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

NodeReclaim::NodeReclaim(Connect connect, UniqueFd started, UniqueFd stop, UniqueFd done)
    : connect_(std::move(connect)),
      started_(std::move(started)),
      stop_(std::move(stop)),
      done_(std::move(done)) {}

Result<std::unique_ptr<NodeReclaim>> NodeReclaim::create(Connect connect) {
  std::array<UniqueFd, 3> events;
  for (auto& each : events) {
    each.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!each) return errno_error("eventfd", "for node-level reclaim");
  }
  std::unique_ptr<NodeReclaim> reclaim(new NodeReclaim(std::move(connect), std::move(events[0]),
                                                       std::move(events[1]), std::move(events[2])));
  reclaim->start_thread();
  return reclaim;
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

NodeReclaim::~NodeReclaim() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void NodeReclaim::start_thread() {
  // A thread starts with its maker's mask: blocked before it is made, no signal ever reaches it.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "forestall-node");
}

void NodeReclaim::serve() {
  for (;;) {
    std::array<pollfd, 2> waits{{{stop_.get(), POLLIN, 0}, {started_.get(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return;
    eventfd_t count = 0;
    ::eventfd_read(started_.get(), &count);
    result_ = run(std::move(steps_));
    state_.store(State::over);
    ::eventfd_write(done_.get(), 1);
  }
}

NodeReclaimResult NodeReclaim::run(std::vector<ReclaimStep> steps) const {
  NodeReclaimResult result;
  result.steps = std::move(steps);
  result.began = SystemClock().now();
  auto runtime = connect_(stop_.get());
  if (runtime) {
    for (const ReclaimStep step : result.steps) take_step(**runtime, step, result);
  } else {
    result.failures.push_back(runtime.error());
  }
  result.took = SystemClock().now() - result.began;
  return result;
}

bool NodeReclaim::start(std::vector<ReclaimStep> steps) {
  if (steps.empty() || state_.load() != State::idle) return false;
  steps_ = std::move(steps);
  state_.store(State::running);
  ::eventfd_write(started_.get(), 1);
  return true;
}

std::optional<NodeReclaimResult> NodeReclaim::take() {
  // The thread stores the state before it raises the event, so that a loop that was woken finds the
  // result. One that looked in between is woken once more, for nothing: hence it is lowered first.
  eventfd_t count = 0;
  ::eventfd_read(done_.get(), &count);
  if (state_.load() != State::over) return std::nullopt;
  std::optional<NodeReclaimResult> result = std::move(result_);
  state_.store(State::idle);
  return result;
}

}  // namespace forestall::actuators
