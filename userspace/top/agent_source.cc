// SPDX-License-Identifier: Apache-2.0
#include "top/agent_source.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "messages/convert.h"
#include "top/order.h"
#include "wire/grpc_call.h"

namespace forestall::top {
namespace {

// A busy node may delay the agent's server thread.
constexpr Duration kPatience = std::chrono::seconds(10);

}  // namespace

AgentSource::AgentSource(std::string socket, int cancel_fd)
    : socket_(std::move(socket)), cancel_fd_(cancel_fd) {}

template <typename Response>
Result<Response> AgentSource::call(const char* method, const std::string& request,
                                   bool& busy) const {
  wire::GrpcTarget target;
  target.socket = socket_;
  target.cancel_fd = cancel_fd_;
  const wire::GrpcReply reply =
      wire::grpc_call(target, fmt::format("/forestall.v1.Agent/{}", method), request, kPatience);
  busy = reply.status == wire::GrpcStatus::resource_exhausted;
  if (!reply.ok()) {
    if (reply.code != 0) return Error{reply.code, reply.message};
    return error(fmt::format("{}: {} ({})", socket_, reply.message, to_string(reply.status)));
  }
  Response response;
  if (!response.ParseFromString(reply.body)) {
    return error(socket_ + ": the listener is not an agent of this version");
  }
  return response;
}

Result<void> AgentSource::read(const std::string& ranking, internal::TopReport& report) {
  bool busy = false;
  v1::GetStatusResponse status = TRY(call<v1::GetStatusResponse>("GetStatus", "", busy));
  v1::RankRequest request;
  request.set_ranking(ranking);
  auto ranked = call<v1::RankResponse>("Rank", request.SerializeAsString(), busy);
  if (ranked) {
    ranked_ = std::move(*ranked);
  } else if (!busy || !ranked_) {
    return ranked.error();
  }
  const auto whose = messages::parse_ranking(ranked_->ranking());
  if (!whose) return error(socket_ + ": the agent has another version");
  const std::vector<Candidate> order = TRY(candidates_of(ranked_->report().order()));
  *report.mutable_agent() = std::move(*status.mutable_status());
  *report.mutable_signals() = ranked_->signals();
  *report.mutable_decisions() = report.agent().decisions();
  report.set_ranking_in_force(report.agent().config().ranking());
  set_order(order, *whose, report);
  add_history(report.agent().thresholds(), report);
  if (report.agent().has_config()) {
    add_unknown(TRY(messages::from_proto(report.agent().config())),
                TRY(messages::from_proto(report.signals().observation())), report);
  }
  if (!records_) {
    // If it fails, the agent's actions show only at the next sample.
    v1::WatchRecordsRequest watch;
    watch.set_acts_only(true);
    auto stream = wire::GrpcStream::open(socket_, "/forestall.v1.Agent/WatchRecords",
                                         watch.SerializeAsString(), kPatience);
    if (stream) records_ = std::move(stream).value();
  }
  return {};
}

bool AgentSource::take_news() {
  if (!records_) return false;
  records_->advance();
  bool any = false;
  while (records_->next()) any = true;
  if (!records_->end()) return any;
  records_.reset();
  return true;
}

}  // namespace forestall::top
