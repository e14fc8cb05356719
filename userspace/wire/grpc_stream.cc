// SPDX-License-Identifier: Apache-2.0
#include "wire/grpc_stream.h"

#include <cerrno>
#include <utility>

namespace forestall::wire {

Result<std::unique_ptr<GrpcStream>> GrpcStream::open(const std::string& socket,
                                                     std::string_view method,
                                                     std::string_view message, Duration patience) {
  auto connected = TRY(connect_to(socket, patience));
  std::unique_ptr<GrpcStream> stream(new GrpcStream(std::move(connected)));
  TRY(stream->exchange_.begin(method, message, std::nullopt));
  stream->exchange_.send();
  return stream;
}

void GrpcStream::advance() {
  if (end_) return;
  auto broken = exchange_.receive();
  if (!broken) exchange_.send();
  if (const auto ended = exchange_.ended()) {
    end_ = reader_.finish(*ended);
  } else if (broken) {
    end_ = *std::move(broken);
  } else if (exchange_.broken()) {
    end_ =
        GrpcReply{GrpcStatus::internal, EPROTO, "not HTTP/2: the server violated the protocol", ""};
  }
}

}  // namespace forestall::wire
