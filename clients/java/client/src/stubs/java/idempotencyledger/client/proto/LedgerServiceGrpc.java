package idempotencyledger.client.proto;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * LedgerService is what consumers of messages call.
 * Every call is safe to repeat: the same claim gets the same token, and the same settlement is
 * answered OK with `replayed`, until the key is granted again, changed by an operator, or purged.
 * A call that is cancelled or runs out of time undoes nothing; repeat the identical request.
 * Errors of any call: INVALID_FIELD; TOO_MANY_ITEMS (of a message of more than 4,096 fields and items);
 * TOO_LARGE; OVERLOADED; DRAINING; STORE_UNAVAILABLE; OUTCOME_UNKNOWN; DEADLINE_EXCEEDED; CANCELLED;
 * KEY_COLLISION; ENTRY_UNREADABLE; INTERNAL; UNIMPLEMENTED; UNAUTHENTICATED; CONSUMER_NOT_ALLOWED;
 * QUOTA_EXCEEDED (by a limit of the principal). ErrorReason explains each of them. The comment of each call
 * lists its own errors in addition.
 * A batch as a whole is refused only with INVALID_FIELD for a message that cannot be read, TOO_MANY_ITEMS,
 * TOO_LARGE, OVERLOADED, DRAINING, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNIMPLEMENTED, UNAUTHENTICATED or
 * QUOTA_EXCEEDED by a limit of the principal. Any other error, and OVERLOADED and QUOTA_EXCEEDED too, may be that of
 * one item, which is then answered `rejected`.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class LedgerServiceGrpc {

  private LedgerServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "idempotency.ledger.v1.LedgerService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.ClaimRequest,
      idempotencyledger.client.proto.ClaimResponse> getClaimMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Claim",
      requestType = idempotencyledger.client.proto.ClaimRequest.class,
      responseType = idempotencyledger.client.proto.ClaimResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.ClaimRequest,
      idempotencyledger.client.proto.ClaimResponse> getClaimMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.ClaimRequest, idempotencyledger.client.proto.ClaimResponse> getClaimMethod;
    if ((getClaimMethod = LedgerServiceGrpc.getClaimMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getClaimMethod = LedgerServiceGrpc.getClaimMethod) == null) {
          LedgerServiceGrpc.getClaimMethod = getClaimMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.ClaimRequest, idempotencyledger.client.proto.ClaimResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Claim"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.ClaimRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.ClaimResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("Claim"))
              .build();
        }
      }
    }
    return getClaimMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.RenewRequest,
      idempotencyledger.client.proto.RenewResponse> getRenewMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Renew",
      requestType = idempotencyledger.client.proto.RenewRequest.class,
      responseType = idempotencyledger.client.proto.RenewResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.RenewRequest,
      idempotencyledger.client.proto.RenewResponse> getRenewMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.RenewRequest, idempotencyledger.client.proto.RenewResponse> getRenewMethod;
    if ((getRenewMethod = LedgerServiceGrpc.getRenewMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getRenewMethod = LedgerServiceGrpc.getRenewMethod) == null) {
          LedgerServiceGrpc.getRenewMethod = getRenewMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.RenewRequest, idempotencyledger.client.proto.RenewResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Renew"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.RenewRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.RenewResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("Renew"))
              .build();
        }
      }
    }
    return getRenewMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.CompleteRequest,
      idempotencyledger.client.proto.CompleteResponse> getCompleteMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Complete",
      requestType = idempotencyledger.client.proto.CompleteRequest.class,
      responseType = idempotencyledger.client.proto.CompleteResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.CompleteRequest,
      idempotencyledger.client.proto.CompleteResponse> getCompleteMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.CompleteRequest, idempotencyledger.client.proto.CompleteResponse> getCompleteMethod;
    if ((getCompleteMethod = LedgerServiceGrpc.getCompleteMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getCompleteMethod = LedgerServiceGrpc.getCompleteMethod) == null) {
          LedgerServiceGrpc.getCompleteMethod = getCompleteMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.CompleteRequest, idempotencyledger.client.proto.CompleteResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Complete"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.CompleteRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.CompleteResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("Complete"))
              .build();
        }
      }
    }
    return getCompleteMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.FailRequest,
      idempotencyledger.client.proto.FailResponse> getFailMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Fail",
      requestType = idempotencyledger.client.proto.FailRequest.class,
      responseType = idempotencyledger.client.proto.FailResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.FailRequest,
      idempotencyledger.client.proto.FailResponse> getFailMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.FailRequest, idempotencyledger.client.proto.FailResponse> getFailMethod;
    if ((getFailMethod = LedgerServiceGrpc.getFailMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getFailMethod = LedgerServiceGrpc.getFailMethod) == null) {
          LedgerServiceGrpc.getFailMethod = getFailMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.FailRequest, idempotencyledger.client.proto.FailResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Fail"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.FailRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.FailResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("Fail"))
              .build();
        }
      }
    }
    return getFailMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.ReleaseRequest,
      idempotencyledger.client.proto.ReleaseResponse> getReleaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Release",
      requestType = idempotencyledger.client.proto.ReleaseRequest.class,
      responseType = idempotencyledger.client.proto.ReleaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.ReleaseRequest,
      idempotencyledger.client.proto.ReleaseResponse> getReleaseMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.ReleaseRequest, idempotencyledger.client.proto.ReleaseResponse> getReleaseMethod;
    if ((getReleaseMethod = LedgerServiceGrpc.getReleaseMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getReleaseMethod = LedgerServiceGrpc.getReleaseMethod) == null) {
          LedgerServiceGrpc.getReleaseMethod = getReleaseMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.ReleaseRequest, idempotencyledger.client.proto.ReleaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Release"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.ReleaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.ReleaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("Release"))
              .build();
        }
      }
    }
    return getReleaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchClaimRequest,
      idempotencyledger.client.proto.BatchClaimResponse> getBatchClaimMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BatchClaim",
      requestType = idempotencyledger.client.proto.BatchClaimRequest.class,
      responseType = idempotencyledger.client.proto.BatchClaimResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchClaimRequest,
      idempotencyledger.client.proto.BatchClaimResponse> getBatchClaimMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchClaimRequest, idempotencyledger.client.proto.BatchClaimResponse> getBatchClaimMethod;
    if ((getBatchClaimMethod = LedgerServiceGrpc.getBatchClaimMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getBatchClaimMethod = LedgerServiceGrpc.getBatchClaimMethod) == null) {
          LedgerServiceGrpc.getBatchClaimMethod = getBatchClaimMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.BatchClaimRequest, idempotencyledger.client.proto.BatchClaimResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BatchClaim"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.BatchClaimRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.BatchClaimResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("BatchClaim"))
              .build();
        }
      }
    }
    return getBatchClaimMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchSettleRequest,
      idempotencyledger.client.proto.BatchSettleResponse> getBatchSettleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BatchSettle",
      requestType = idempotencyledger.client.proto.BatchSettleRequest.class,
      responseType = idempotencyledger.client.proto.BatchSettleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchSettleRequest,
      idempotencyledger.client.proto.BatchSettleResponse> getBatchSettleMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchSettleRequest, idempotencyledger.client.proto.BatchSettleResponse> getBatchSettleMethod;
    if ((getBatchSettleMethod = LedgerServiceGrpc.getBatchSettleMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getBatchSettleMethod = LedgerServiceGrpc.getBatchSettleMethod) == null) {
          LedgerServiceGrpc.getBatchSettleMethod = getBatchSettleMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.BatchSettleRequest, idempotencyledger.client.proto.BatchSettleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BatchSettle"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.BatchSettleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.BatchSettleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("BatchSettle"))
              .build();
        }
      }
    }
    return getBatchSettleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.LookupRequest,
      idempotencyledger.client.proto.LookupResponse> getLookupMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Lookup",
      requestType = idempotencyledger.client.proto.LookupRequest.class,
      responseType = idempotencyledger.client.proto.LookupResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.LookupRequest,
      idempotencyledger.client.proto.LookupResponse> getLookupMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.LookupRequest, idempotencyledger.client.proto.LookupResponse> getLookupMethod;
    if ((getLookupMethod = LedgerServiceGrpc.getLookupMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getLookupMethod = LedgerServiceGrpc.getLookupMethod) == null) {
          LedgerServiceGrpc.getLookupMethod = getLookupMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.LookupRequest, idempotencyledger.client.proto.LookupResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Lookup"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.LookupRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.LookupResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("Lookup"))
              .build();
        }
      }
    }
    return getLookupMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchLookupRequest,
      idempotencyledger.client.proto.BatchLookupResponse> getBatchLookupMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BatchLookup",
      requestType = idempotencyledger.client.proto.BatchLookupRequest.class,
      responseType = idempotencyledger.client.proto.BatchLookupResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchLookupRequest,
      idempotencyledger.client.proto.BatchLookupResponse> getBatchLookupMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchLookupRequest, idempotencyledger.client.proto.BatchLookupResponse> getBatchLookupMethod;
    if ((getBatchLookupMethod = LedgerServiceGrpc.getBatchLookupMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getBatchLookupMethod = LedgerServiceGrpc.getBatchLookupMethod) == null) {
          LedgerServiceGrpc.getBatchLookupMethod = getBatchLookupMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.BatchLookupRequest, idempotencyledger.client.proto.BatchLookupResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BatchLookup"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.BatchLookupRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.BatchLookupResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("BatchLookup"))
              .build();
        }
      }
    }
    return getBatchLookupMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.StoreRequest,
      idempotencyledger.client.proto.StoreResponse> getStoreMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Store",
      requestType = idempotencyledger.client.proto.StoreRequest.class,
      responseType = idempotencyledger.client.proto.StoreResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.StoreRequest,
      idempotencyledger.client.proto.StoreResponse> getStoreMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.StoreRequest, idempotencyledger.client.proto.StoreResponse> getStoreMethod;
    if ((getStoreMethod = LedgerServiceGrpc.getStoreMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getStoreMethod = LedgerServiceGrpc.getStoreMethod) == null) {
          LedgerServiceGrpc.getStoreMethod = getStoreMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.StoreRequest, idempotencyledger.client.proto.StoreResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Store"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.StoreRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.StoreResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("Store"))
              .build();
        }
      }
    }
    return getStoreMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchStoreRequest,
      idempotencyledger.client.proto.BatchStoreResponse> getBatchStoreMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BatchStore",
      requestType = idempotencyledger.client.proto.BatchStoreRequest.class,
      responseType = idempotencyledger.client.proto.BatchStoreResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchStoreRequest,
      idempotencyledger.client.proto.BatchStoreResponse> getBatchStoreMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.BatchStoreRequest, idempotencyledger.client.proto.BatchStoreResponse> getBatchStoreMethod;
    if ((getBatchStoreMethod = LedgerServiceGrpc.getBatchStoreMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getBatchStoreMethod = LedgerServiceGrpc.getBatchStoreMethod) == null) {
          LedgerServiceGrpc.getBatchStoreMethod = getBatchStoreMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.BatchStoreRequest, idempotencyledger.client.proto.BatchStoreResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BatchStore"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.BatchStoreRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.BatchStoreResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("BatchStore"))
              .build();
        }
      }
    }
    return getBatchStoreMethod;
  }

  private static volatile io.grpc.MethodDescriptor<idempotencyledger.client.proto.ClaimNextRequest,
      idempotencyledger.client.proto.ClaimNextResponse> getClaimNextMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ClaimNext",
      requestType = idempotencyledger.client.proto.ClaimNextRequest.class,
      responseType = idempotencyledger.client.proto.ClaimNextResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<idempotencyledger.client.proto.ClaimNextRequest,
      idempotencyledger.client.proto.ClaimNextResponse> getClaimNextMethod() {
    io.grpc.MethodDescriptor<idempotencyledger.client.proto.ClaimNextRequest, idempotencyledger.client.proto.ClaimNextResponse> getClaimNextMethod;
    if ((getClaimNextMethod = LedgerServiceGrpc.getClaimNextMethod) == null) {
      synchronized (LedgerServiceGrpc.class) {
        if ((getClaimNextMethod = LedgerServiceGrpc.getClaimNextMethod) == null) {
          LedgerServiceGrpc.getClaimNextMethod = getClaimNextMethod =
              io.grpc.MethodDescriptor.<idempotencyledger.client.proto.ClaimNextRequest, idempotencyledger.client.proto.ClaimNextResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ClaimNext"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.ClaimNextRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  idempotencyledger.client.proto.ClaimNextResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LedgerServiceMethodDescriptorSupplier("ClaimNext"))
              .build();
        }
      }
    }
    return getClaimNextMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static LedgerServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LedgerServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LedgerServiceStub>() {
        @java.lang.Override
        public LedgerServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LedgerServiceStub(channel, callOptions);
        }
      };
    return LedgerServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static LedgerServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LedgerServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LedgerServiceBlockingStub>() {
        @java.lang.Override
        public LedgerServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LedgerServiceBlockingStub(channel, callOptions);
        }
      };
    return LedgerServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static LedgerServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LedgerServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LedgerServiceFutureStub>() {
        @java.lang.Override
        public LedgerServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LedgerServiceFutureStub(channel, callOptions);
        }
      };
    return LedgerServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * LedgerService is what consumers of messages call.
   * Every call is safe to repeat: the same claim gets the same token, and the same settlement is
   * answered OK with `replayed`, until the key is granted again, changed by an operator, or purged.
   * A call that is cancelled or runs out of time undoes nothing; repeat the identical request.
   * Errors of any call: INVALID_FIELD; TOO_MANY_ITEMS (of a message of more than 4,096 fields and items);
   * TOO_LARGE; OVERLOADED; DRAINING; STORE_UNAVAILABLE; OUTCOME_UNKNOWN; DEADLINE_EXCEEDED; CANCELLED;
   * KEY_COLLISION; ENTRY_UNREADABLE; INTERNAL; UNIMPLEMENTED; UNAUTHENTICATED; CONSUMER_NOT_ALLOWED;
   * QUOTA_EXCEEDED (by a limit of the principal). ErrorReason explains each of them. The comment of each call
   * lists its own errors in addition.
   * A batch as a whole is refused only with INVALID_FIELD for a message that cannot be read, TOO_MANY_ITEMS,
   * TOO_LARGE, OVERLOADED, DRAINING, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNIMPLEMENTED, UNAUTHENTICATED or
   * QUOTA_EXCEEDED by a limit of the principal. Any other error, and OVERLOADED and QUOTA_EXCEEDED too, may be that of
   * one item, which is then answered `rejected`.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Claim asks for the right to process a message now. The verdict is always answered with the
     * gRPC status OK. Repeating a Claim with the same claim_id and owner returns the same token
     * while its lease lasts. With a `wait` the call is answered once another verdict than `in_progress` can be: the holder's
     * result, or a grant where the holder failed.
     * Its own errors: UNKNOWN_CONSUMER; QUOTA_EXCEEDED; REPLAY_RUN_UNKNOWN; CLAIM_CLOSED (status ABORTED: a
     * delayed repeat of a claim that has ended; a new delivery uses a new claim_id). Only in place of a new
     * grant or of `suppressed`: CONSUMER_DISABLED; REPLAY_RUN_CLOSED; REPLAY_FORBIDDEN; POLICY_UNREADABLE;
     * STORE_CLOCK_BEHIND; STORE_CLOCK_AHEAD; STORE_UNAVAILABLE (where the policies could not be read for too
     * long).
     * </pre>
     */
    default void claim(idempotencyledger.client.proto.ClaimRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.ClaimResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getClaimMethod(), responseObserver);
    }

    /**
     * <pre>
     * Renew extends the lease of a claim, tells the ledger that the effect is about to start, or
     * stores a checkpoint. It never shortens a lease and never changes the token.
     * A consumer whose effect can be neither fenced nor deduplicated looks at the grant's `on_expiry`,
     * calls Renew with effect_started, and waits for OK before it starts the effect.
     * Its own errors: LEASE_LOST; CLAIM_CLOSED; LEASE_LIMIT_REACHED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    default void renew(idempotencyledger.client.proto.RenewRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.RenewResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRenewMethod(), responseObserver);
    }

    /**
     * <pre>
     * Complete records that the effect is done, and its result. It is accepted from the holder of the latest
     * token, even after the lease has run out (`late`), as long as no other claim was granted the key since. A
     * Complete that is refused with LEASE_LOST is still a report of the effect: the attempt is marked once,
     * where it is remembered, and the operators are alerted where two holders have reported the effect.
     * Its own errors: LEASE_LOST (another claim was granted the key since, or an operator changed the entry:
     * look at the advice, it is ADVICE_ACK where the message is completed); CLAIM_CLOSED; TOKEN_FROM_FUTURE;
     * ENTRY_NOT_FOUND.
     * </pre>
     */
    default void complete(idempotencyledger.client.proto.CompleteRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.CompleteResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompleteMethod(), responseObserver);
    }

    /**
     * <pre>
     * Fail records that the attempt failed, and whether another one may help.
     * Its own errors: LEASE_LOST; CLAIM_CLOSED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    default void fail(idempotencyledger.client.proto.FailRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.FailResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getFailMethod(), responseObserver);
    }

    /**
     * <pre>
     * Release gives the claim back unused; the attempt does not count. It is for work that has not
     * begun: release nothing whose effect may be running or done.
     * Its own errors: EFFECT_STARTED; LEASE_LOST; CLAIM_CLOSED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    default void release(idempotencyledger.client.proto.ReleaseRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.ReleaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReleaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * BatchClaim answers each request once, in the same order, independently of its neighbours.
     * The same key twice behaves as if sent one after the other. Of a claim_id that stands in the
     * batch more than once, every item after the first is `rejected`.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Claim, with the same status code.
     * </pre>
     */
    default void batchClaim(idempotencyledger.client.proto.BatchClaimRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchClaimResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBatchClaimMethod(), responseObserver);
    }

    /**
     * <pre>
     * BatchSettle carries out each settlement once, in the same order, independently of its
     * neighbours. The same key twice behaves as if sent one after the other.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 settlements). An item may have every error of the
     * call that it stands for, with the same status code.
     * </pre>
     */
    default void batchSettle(idempotencyledger.client.proto.BatchSettleRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchSettleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBatchSettleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lookup answers what a Claim would find, without claiming: it writes nothing, grants nothing, parks nothing, and
     * compares no fingerprint. It is for clients that ask how a message stands, such as a status page or a duplicate
     * request. It needs the right `claim`, and counts towards no quota of the consumer. What holds grants back (a
     * `disabled` policy, a hold, a closed run, a policy that this server cannot read, a clock that is behind) does not
     * hold it back. It is not a permission to process a message: only `acquired` is one. With a `wait` it is answered once the
     * entry is COMPLETED, FAILED_TERMINAL or PARKED.
     * Its own errors: UNKNOWN_CONSUMER; REPLAY_RUN_UNKNOWN.
     * </pre>
     */
    default void lookup(idempotencyledger.client.proto.LookupRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.LookupResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getLookupMethod(), responseObserver);
    }

    /**
     * <pre>
     * BatchLookup answers each request once, in the same order, independently of its neighbours.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Lookup, with the same status code.
     * </pre>
     */
    default void batchLookup(idempotencyledger.client.proto.BatchLookupRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchLookupResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBatchLookupMethod(), responseObserver);
    }

    /**
     * <pre>
     * Store keeps a message for a consumer whose policy has `inbox`, so that it can be acknowledged before it is processed.
     * Workers take it by ClaimNext, until its entry is COMPLETED or FAILED_TERMINAL. It grants nothing. A repeat is answered
     * with the same advice. Needs the right `store` on the consumer.
     * Its own errors: UNKNOWN_CONSUMER; INBOX_OFF. Only in place of a write: BACKLOG_FULL; POLICY_UNREADABLE;
     * STORE_UNAVAILABLE (where the policies could not be read for too long). Only in place of a new entry: STORE_CLOCK_BEHIND;
     * STORE_CLOCK_AHEAD.
     * </pre>
     */
    default void store(idempotencyledger.client.proto.StoreRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.StoreResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getStoreMethod(), responseObserver);
    }

    /**
     * <pre>
     * BatchStore stores many messages in one call: 1,000 at most, and requests of 3.5 MiB. Each has its own answer,
     * in the same order; messages under the same key are stored one after the other.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Store, with the same status code.
     * </pre>
     */
    default void batchStore(idempotencyledger.client.proto.BatchStoreRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchStoreResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBatchStoreMethod(), responseObserver);
    }

    /**
     * <pre>
     * ClaimNext is a Claim for which the server chooses the keys: it hands out stored messages of one consumer that are due,
     * roughly the oldest first, each under a lease. Settle each as after a Claim. A message whose lease ran out twice in a row
     * is handed out alone, since it may kill the workers that process it. All leases run from this call on: ask for at most as many
     * messages as half of the lease suffices for. Needs the right `claim` on the consumer.
     * Repeat a call whose answer was lost with the same `claim_id`: it is answered the messages that it was handed out and still
     * holds. Each new call needs a new `claim_id`, also after an answer without messages.
     * Its own errors: UNKNOWN_CONSUMER; QUOTA_EXCEEDED; CLAIM_CLOSED (status ABORTED: the messages that this claim_id was handed
     * out have ended; a new call uses a new claim_id). Only where a message is due: CONSUMER_DISABLED; POLICY_UNREADABLE;
     * STORE_CLOCK_BEHIND; STORE_CLOCK_AHEAD; STORE_UNAVAILABLE (where the policies could not be read for too long).
     * </pre>
     */
    default void claimNext(idempotencyledger.client.proto.ClaimNextRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.ClaimNextResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getClaimNextMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service LedgerService.
   * <pre>
   * LedgerService is what consumers of messages call.
   * Every call is safe to repeat: the same claim gets the same token, and the same settlement is
   * answered OK with `replayed`, until the key is granted again, changed by an operator, or purged.
   * A call that is cancelled or runs out of time undoes nothing; repeat the identical request.
   * Errors of any call: INVALID_FIELD; TOO_MANY_ITEMS (of a message of more than 4,096 fields and items);
   * TOO_LARGE; OVERLOADED; DRAINING; STORE_UNAVAILABLE; OUTCOME_UNKNOWN; DEADLINE_EXCEEDED; CANCELLED;
   * KEY_COLLISION; ENTRY_UNREADABLE; INTERNAL; UNIMPLEMENTED; UNAUTHENTICATED; CONSUMER_NOT_ALLOWED;
   * QUOTA_EXCEEDED (by a limit of the principal). ErrorReason explains each of them. The comment of each call
   * lists its own errors in addition.
   * A batch as a whole is refused only with INVALID_FIELD for a message that cannot be read, TOO_MANY_ITEMS,
   * TOO_LARGE, OVERLOADED, DRAINING, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNIMPLEMENTED, UNAUTHENTICATED or
   * QUOTA_EXCEEDED by a limit of the principal. Any other error, and OVERLOADED and QUOTA_EXCEEDED too, may be that of
   * one item, which is then answered `rejected`.
   * </pre>
   */
  public static abstract class LedgerServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return LedgerServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service LedgerService.
   * <pre>
   * LedgerService is what consumers of messages call.
   * Every call is safe to repeat: the same claim gets the same token, and the same settlement is
   * answered OK with `replayed`, until the key is granted again, changed by an operator, or purged.
   * A call that is cancelled or runs out of time undoes nothing; repeat the identical request.
   * Errors of any call: INVALID_FIELD; TOO_MANY_ITEMS (of a message of more than 4,096 fields and items);
   * TOO_LARGE; OVERLOADED; DRAINING; STORE_UNAVAILABLE; OUTCOME_UNKNOWN; DEADLINE_EXCEEDED; CANCELLED;
   * KEY_COLLISION; ENTRY_UNREADABLE; INTERNAL; UNIMPLEMENTED; UNAUTHENTICATED; CONSUMER_NOT_ALLOWED;
   * QUOTA_EXCEEDED (by a limit of the principal). ErrorReason explains each of them. The comment of each call
   * lists its own errors in addition.
   * A batch as a whole is refused only with INVALID_FIELD for a message that cannot be read, TOO_MANY_ITEMS,
   * TOO_LARGE, OVERLOADED, DRAINING, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNIMPLEMENTED, UNAUTHENTICATED or
   * QUOTA_EXCEEDED by a limit of the principal. Any other error, and OVERLOADED and QUOTA_EXCEEDED too, may be that of
   * one item, which is then answered `rejected`.
   * </pre>
   */
  public static final class LedgerServiceStub
      extends io.grpc.stub.AbstractAsyncStub<LedgerServiceStub> {
    private LedgerServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LedgerServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LedgerServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Claim asks for the right to process a message now. The verdict is always answered with the
     * gRPC status OK. Repeating a Claim with the same claim_id and owner returns the same token
     * while its lease lasts. With a `wait` the call is answered once another verdict than `in_progress` can be: the holder's
     * result, or a grant where the holder failed.
     * Its own errors: UNKNOWN_CONSUMER; QUOTA_EXCEEDED; REPLAY_RUN_UNKNOWN; CLAIM_CLOSED (status ABORTED: a
     * delayed repeat of a claim that has ended; a new delivery uses a new claim_id). Only in place of a new
     * grant or of `suppressed`: CONSUMER_DISABLED; REPLAY_RUN_CLOSED; REPLAY_FORBIDDEN; POLICY_UNREADABLE;
     * STORE_CLOCK_BEHIND; STORE_CLOCK_AHEAD; STORE_UNAVAILABLE (where the policies could not be read for too
     * long).
     * </pre>
     */
    public void claim(idempotencyledger.client.proto.ClaimRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.ClaimResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getClaimMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Renew extends the lease of a claim, tells the ledger that the effect is about to start, or
     * stores a checkpoint. It never shortens a lease and never changes the token.
     * A consumer whose effect can be neither fenced nor deduplicated looks at the grant's `on_expiry`,
     * calls Renew with effect_started, and waits for OK before it starts the effect.
     * Its own errors: LEASE_LOST; CLAIM_CLOSED; LEASE_LIMIT_REACHED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    public void renew(idempotencyledger.client.proto.RenewRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.RenewResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRenewMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Complete records that the effect is done, and its result. It is accepted from the holder of the latest
     * token, even after the lease has run out (`late`), as long as no other claim was granted the key since. A
     * Complete that is refused with LEASE_LOST is still a report of the effect: the attempt is marked once,
     * where it is remembered, and the operators are alerted where two holders have reported the effect.
     * Its own errors: LEASE_LOST (another claim was granted the key since, or an operator changed the entry:
     * look at the advice, it is ADVICE_ACK where the message is completed); CLAIM_CLOSED; TOKEN_FROM_FUTURE;
     * ENTRY_NOT_FOUND.
     * </pre>
     */
    public void complete(idempotencyledger.client.proto.CompleteRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.CompleteResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompleteMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Fail records that the attempt failed, and whether another one may help.
     * Its own errors: LEASE_LOST; CLAIM_CLOSED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    public void fail(idempotencyledger.client.proto.FailRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.FailResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getFailMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Release gives the claim back unused; the attempt does not count. It is for work that has not
     * begun: release nothing whose effect may be running or done.
     * Its own errors: EFFECT_STARTED; LEASE_LOST; CLAIM_CLOSED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    public void release(idempotencyledger.client.proto.ReleaseRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.ReleaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReleaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * BatchClaim answers each request once, in the same order, independently of its neighbours.
     * The same key twice behaves as if sent one after the other. Of a claim_id that stands in the
     * batch more than once, every item after the first is `rejected`.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Claim, with the same status code.
     * </pre>
     */
    public void batchClaim(idempotencyledger.client.proto.BatchClaimRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchClaimResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBatchClaimMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * BatchSettle carries out each settlement once, in the same order, independently of its
     * neighbours. The same key twice behaves as if sent one after the other.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 settlements). An item may have every error of the
     * call that it stands for, with the same status code.
     * </pre>
     */
    public void batchSettle(idempotencyledger.client.proto.BatchSettleRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchSettleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBatchSettleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lookup answers what a Claim would find, without claiming: it writes nothing, grants nothing, parks nothing, and
     * compares no fingerprint. It is for clients that ask how a message stands, such as a status page or a duplicate
     * request. It needs the right `claim`, and counts towards no quota of the consumer. What holds grants back (a
     * `disabled` policy, a hold, a closed run, a policy that this server cannot read, a clock that is behind) does not
     * hold it back. It is not a permission to process a message: only `acquired` is one. With a `wait` it is answered once the
     * entry is COMPLETED, FAILED_TERMINAL or PARKED.
     * Its own errors: UNKNOWN_CONSUMER; REPLAY_RUN_UNKNOWN.
     * </pre>
     */
    public void lookup(idempotencyledger.client.proto.LookupRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.LookupResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getLookupMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * BatchLookup answers each request once, in the same order, independently of its neighbours.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Lookup, with the same status code.
     * </pre>
     */
    public void batchLookup(idempotencyledger.client.proto.BatchLookupRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchLookupResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBatchLookupMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Store keeps a message for a consumer whose policy has `inbox`, so that it can be acknowledged before it is processed.
     * Workers take it by ClaimNext, until its entry is COMPLETED or FAILED_TERMINAL. It grants nothing. A repeat is answered
     * with the same advice. Needs the right `store` on the consumer.
     * Its own errors: UNKNOWN_CONSUMER; INBOX_OFF. Only in place of a write: BACKLOG_FULL; POLICY_UNREADABLE;
     * STORE_UNAVAILABLE (where the policies could not be read for too long). Only in place of a new entry: STORE_CLOCK_BEHIND;
     * STORE_CLOCK_AHEAD.
     * </pre>
     */
    public void store(idempotencyledger.client.proto.StoreRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.StoreResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getStoreMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * BatchStore stores many messages in one call: 1,000 at most, and requests of 3.5 MiB. Each has its own answer,
     * in the same order; messages under the same key are stored one after the other.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Store, with the same status code.
     * </pre>
     */
    public void batchStore(idempotencyledger.client.proto.BatchStoreRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchStoreResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBatchStoreMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ClaimNext is a Claim for which the server chooses the keys: it hands out stored messages of one consumer that are due,
     * roughly the oldest first, each under a lease. Settle each as after a Claim. A message whose lease ran out twice in a row
     * is handed out alone, since it may kill the workers that process it. All leases run from this call on: ask for at most as many
     * messages as half of the lease suffices for. Needs the right `claim` on the consumer.
     * Repeat a call whose answer was lost with the same `claim_id`: it is answered the messages that it was handed out and still
     * holds. Each new call needs a new `claim_id`, also after an answer without messages.
     * Its own errors: UNKNOWN_CONSUMER; QUOTA_EXCEEDED; CLAIM_CLOSED (status ABORTED: the messages that this claim_id was handed
     * out have ended; a new call uses a new claim_id). Only where a message is due: CONSUMER_DISABLED; POLICY_UNREADABLE;
     * STORE_CLOCK_BEHIND; STORE_CLOCK_AHEAD; STORE_UNAVAILABLE (where the policies could not be read for too long).
     * </pre>
     */
    public void claimNext(idempotencyledger.client.proto.ClaimNextRequest request,
        io.grpc.stub.StreamObserver<idempotencyledger.client.proto.ClaimNextResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getClaimNextMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service LedgerService.
   * <pre>
   * LedgerService is what consumers of messages call.
   * Every call is safe to repeat: the same claim gets the same token, and the same settlement is
   * answered OK with `replayed`, until the key is granted again, changed by an operator, or purged.
   * A call that is cancelled or runs out of time undoes nothing; repeat the identical request.
   * Errors of any call: INVALID_FIELD; TOO_MANY_ITEMS (of a message of more than 4,096 fields and items);
   * TOO_LARGE; OVERLOADED; DRAINING; STORE_UNAVAILABLE; OUTCOME_UNKNOWN; DEADLINE_EXCEEDED; CANCELLED;
   * KEY_COLLISION; ENTRY_UNREADABLE; INTERNAL; UNIMPLEMENTED; UNAUTHENTICATED; CONSUMER_NOT_ALLOWED;
   * QUOTA_EXCEEDED (by a limit of the principal). ErrorReason explains each of them. The comment of each call
   * lists its own errors in addition.
   * A batch as a whole is refused only with INVALID_FIELD for a message that cannot be read, TOO_MANY_ITEMS,
   * TOO_LARGE, OVERLOADED, DRAINING, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNIMPLEMENTED, UNAUTHENTICATED or
   * QUOTA_EXCEEDED by a limit of the principal. Any other error, and OVERLOADED and QUOTA_EXCEEDED too, may be that of
   * one item, which is then answered `rejected`.
   * </pre>
   */
  public static final class LedgerServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<LedgerServiceBlockingStub> {
    private LedgerServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LedgerServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LedgerServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Claim asks for the right to process a message now. The verdict is always answered with the
     * gRPC status OK. Repeating a Claim with the same claim_id and owner returns the same token
     * while its lease lasts. With a `wait` the call is answered once another verdict than `in_progress` can be: the holder's
     * result, or a grant where the holder failed.
     * Its own errors: UNKNOWN_CONSUMER; QUOTA_EXCEEDED; REPLAY_RUN_UNKNOWN; CLAIM_CLOSED (status ABORTED: a
     * delayed repeat of a claim that has ended; a new delivery uses a new claim_id). Only in place of a new
     * grant or of `suppressed`: CONSUMER_DISABLED; REPLAY_RUN_CLOSED; REPLAY_FORBIDDEN; POLICY_UNREADABLE;
     * STORE_CLOCK_BEHIND; STORE_CLOCK_AHEAD; STORE_UNAVAILABLE (where the policies could not be read for too
     * long).
     * </pre>
     */
    public idempotencyledger.client.proto.ClaimResponse claim(idempotencyledger.client.proto.ClaimRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getClaimMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Renew extends the lease of a claim, tells the ledger that the effect is about to start, or
     * stores a checkpoint. It never shortens a lease and never changes the token.
     * A consumer whose effect can be neither fenced nor deduplicated looks at the grant's `on_expiry`,
     * calls Renew with effect_started, and waits for OK before it starts the effect.
     * Its own errors: LEASE_LOST; CLAIM_CLOSED; LEASE_LIMIT_REACHED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    public idempotencyledger.client.proto.RenewResponse renew(idempotencyledger.client.proto.RenewRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRenewMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Complete records that the effect is done, and its result. It is accepted from the holder of the latest
     * token, even after the lease has run out (`late`), as long as no other claim was granted the key since. A
     * Complete that is refused with LEASE_LOST is still a report of the effect: the attempt is marked once,
     * where it is remembered, and the operators are alerted where two holders have reported the effect.
     * Its own errors: LEASE_LOST (another claim was granted the key since, or an operator changed the entry:
     * look at the advice, it is ADVICE_ACK where the message is completed); CLAIM_CLOSED; TOKEN_FROM_FUTURE;
     * ENTRY_NOT_FOUND.
     * </pre>
     */
    public idempotencyledger.client.proto.CompleteResponse complete(idempotencyledger.client.proto.CompleteRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompleteMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Fail records that the attempt failed, and whether another one may help.
     * Its own errors: LEASE_LOST; CLAIM_CLOSED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    public idempotencyledger.client.proto.FailResponse fail(idempotencyledger.client.proto.FailRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getFailMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Release gives the claim back unused; the attempt does not count. It is for work that has not
     * begun: release nothing whose effect may be running or done.
     * Its own errors: EFFECT_STARTED; LEASE_LOST; CLAIM_CLOSED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    public idempotencyledger.client.proto.ReleaseResponse release(idempotencyledger.client.proto.ReleaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReleaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * BatchClaim answers each request once, in the same order, independently of its neighbours.
     * The same key twice behaves as if sent one after the other. Of a claim_id that stands in the
     * batch more than once, every item after the first is `rejected`.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Claim, with the same status code.
     * </pre>
     */
    public idempotencyledger.client.proto.BatchClaimResponse batchClaim(idempotencyledger.client.proto.BatchClaimRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBatchClaimMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * BatchSettle carries out each settlement once, in the same order, independently of its
     * neighbours. The same key twice behaves as if sent one after the other.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 settlements). An item may have every error of the
     * call that it stands for, with the same status code.
     * </pre>
     */
    public idempotencyledger.client.proto.BatchSettleResponse batchSettle(idempotencyledger.client.proto.BatchSettleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBatchSettleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lookup answers what a Claim would find, without claiming: it writes nothing, grants nothing, parks nothing, and
     * compares no fingerprint. It is for clients that ask how a message stands, such as a status page or a duplicate
     * request. It needs the right `claim`, and counts towards no quota of the consumer. What holds grants back (a
     * `disabled` policy, a hold, a closed run, a policy that this server cannot read, a clock that is behind) does not
     * hold it back. It is not a permission to process a message: only `acquired` is one. With a `wait` it is answered once the
     * entry is COMPLETED, FAILED_TERMINAL or PARKED.
     * Its own errors: UNKNOWN_CONSUMER; REPLAY_RUN_UNKNOWN.
     * </pre>
     */
    public idempotencyledger.client.proto.LookupResponse lookup(idempotencyledger.client.proto.LookupRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getLookupMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * BatchLookup answers each request once, in the same order, independently of its neighbours.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Lookup, with the same status code.
     * </pre>
     */
    public idempotencyledger.client.proto.BatchLookupResponse batchLookup(idempotencyledger.client.proto.BatchLookupRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBatchLookupMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Store keeps a message for a consumer whose policy has `inbox`, so that it can be acknowledged before it is processed.
     * Workers take it by ClaimNext, until its entry is COMPLETED or FAILED_TERMINAL. It grants nothing. A repeat is answered
     * with the same advice. Needs the right `store` on the consumer.
     * Its own errors: UNKNOWN_CONSUMER; INBOX_OFF. Only in place of a write: BACKLOG_FULL; POLICY_UNREADABLE;
     * STORE_UNAVAILABLE (where the policies could not be read for too long). Only in place of a new entry: STORE_CLOCK_BEHIND;
     * STORE_CLOCK_AHEAD.
     * </pre>
     */
    public idempotencyledger.client.proto.StoreResponse store(idempotencyledger.client.proto.StoreRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getStoreMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * BatchStore stores many messages in one call: 1,000 at most, and requests of 3.5 MiB. Each has its own answer,
     * in the same order; messages under the same key are stored one after the other.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Store, with the same status code.
     * </pre>
     */
    public idempotencyledger.client.proto.BatchStoreResponse batchStore(idempotencyledger.client.proto.BatchStoreRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBatchStoreMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ClaimNext is a Claim for which the server chooses the keys: it hands out stored messages of one consumer that are due,
     * roughly the oldest first, each under a lease. Settle each as after a Claim. A message whose lease ran out twice in a row
     * is handed out alone, since it may kill the workers that process it. All leases run from this call on: ask for at most as many
     * messages as half of the lease suffices for. Needs the right `claim` on the consumer.
     * Repeat a call whose answer was lost with the same `claim_id`: it is answered the messages that it was handed out and still
     * holds. Each new call needs a new `claim_id`, also after an answer without messages.
     * Its own errors: UNKNOWN_CONSUMER; QUOTA_EXCEEDED; CLAIM_CLOSED (status ABORTED: the messages that this claim_id was handed
     * out have ended; a new call uses a new claim_id). Only where a message is due: CONSUMER_DISABLED; POLICY_UNREADABLE;
     * STORE_CLOCK_BEHIND; STORE_CLOCK_AHEAD; STORE_UNAVAILABLE (where the policies could not be read for too long).
     * </pre>
     */
    public idempotencyledger.client.proto.ClaimNextResponse claimNext(idempotencyledger.client.proto.ClaimNextRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getClaimNextMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service LedgerService.
   * <pre>
   * LedgerService is what consumers of messages call.
   * Every call is safe to repeat: the same claim gets the same token, and the same settlement is
   * answered OK with `replayed`, until the key is granted again, changed by an operator, or purged.
   * A call that is cancelled or runs out of time undoes nothing; repeat the identical request.
   * Errors of any call: INVALID_FIELD; TOO_MANY_ITEMS (of a message of more than 4,096 fields and items);
   * TOO_LARGE; OVERLOADED; DRAINING; STORE_UNAVAILABLE; OUTCOME_UNKNOWN; DEADLINE_EXCEEDED; CANCELLED;
   * KEY_COLLISION; ENTRY_UNREADABLE; INTERNAL; UNIMPLEMENTED; UNAUTHENTICATED; CONSUMER_NOT_ALLOWED;
   * QUOTA_EXCEEDED (by a limit of the principal). ErrorReason explains each of them. The comment of each call
   * lists its own errors in addition.
   * A batch as a whole is refused only with INVALID_FIELD for a message that cannot be read, TOO_MANY_ITEMS,
   * TOO_LARGE, OVERLOADED, DRAINING, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNIMPLEMENTED, UNAUTHENTICATED or
   * QUOTA_EXCEEDED by a limit of the principal. Any other error, and OVERLOADED and QUOTA_EXCEEDED too, may be that of
   * one item, which is then answered `rejected`.
   * </pre>
   */
  public static final class LedgerServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<LedgerServiceFutureStub> {
    private LedgerServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LedgerServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LedgerServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Claim asks for the right to process a message now. The verdict is always answered with the
     * gRPC status OK. Repeating a Claim with the same claim_id and owner returns the same token
     * while its lease lasts. With a `wait` the call is answered once another verdict than `in_progress` can be: the holder's
     * result, or a grant where the holder failed.
     * Its own errors: UNKNOWN_CONSUMER; QUOTA_EXCEEDED; REPLAY_RUN_UNKNOWN; CLAIM_CLOSED (status ABORTED: a
     * delayed repeat of a claim that has ended; a new delivery uses a new claim_id). Only in place of a new
     * grant or of `suppressed`: CONSUMER_DISABLED; REPLAY_RUN_CLOSED; REPLAY_FORBIDDEN; POLICY_UNREADABLE;
     * STORE_CLOCK_BEHIND; STORE_CLOCK_AHEAD; STORE_UNAVAILABLE (where the policies could not be read for too
     * long).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.ClaimResponse> claim(
        idempotencyledger.client.proto.ClaimRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getClaimMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Renew extends the lease of a claim, tells the ledger that the effect is about to start, or
     * stores a checkpoint. It never shortens a lease and never changes the token.
     * A consumer whose effect can be neither fenced nor deduplicated looks at the grant's `on_expiry`,
     * calls Renew with effect_started, and waits for OK before it starts the effect.
     * Its own errors: LEASE_LOST; CLAIM_CLOSED; LEASE_LIMIT_REACHED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.RenewResponse> renew(
        idempotencyledger.client.proto.RenewRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRenewMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Complete records that the effect is done, and its result. It is accepted from the holder of the latest
     * token, even after the lease has run out (`late`), as long as no other claim was granted the key since. A
     * Complete that is refused with LEASE_LOST is still a report of the effect: the attempt is marked once,
     * where it is remembered, and the operators are alerted where two holders have reported the effect.
     * Its own errors: LEASE_LOST (another claim was granted the key since, or an operator changed the entry:
     * look at the advice, it is ADVICE_ACK where the message is completed); CLAIM_CLOSED; TOKEN_FROM_FUTURE;
     * ENTRY_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.CompleteResponse> complete(
        idempotencyledger.client.proto.CompleteRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompleteMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Fail records that the attempt failed, and whether another one may help.
     * Its own errors: LEASE_LOST; CLAIM_CLOSED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.FailResponse> fail(
        idempotencyledger.client.proto.FailRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getFailMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Release gives the claim back unused; the attempt does not count. It is for work that has not
     * begun: release nothing whose effect may be running or done.
     * Its own errors: EFFECT_STARTED; LEASE_LOST; CLAIM_CLOSED; TOKEN_FROM_FUTURE; ENTRY_NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.ReleaseResponse> release(
        idempotencyledger.client.proto.ReleaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReleaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * BatchClaim answers each request once, in the same order, independently of its neighbours.
     * The same key twice behaves as if sent one after the other. Of a claim_id that stands in the
     * batch more than once, every item after the first is `rejected`.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Claim, with the same status code.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.BatchClaimResponse> batchClaim(
        idempotencyledger.client.proto.BatchClaimRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBatchClaimMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * BatchSettle carries out each settlement once, in the same order, independently of its
     * neighbours. The same key twice behaves as if sent one after the other.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 settlements). An item may have every error of the
     * call that it stands for, with the same status code.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.BatchSettleResponse> batchSettle(
        idempotencyledger.client.proto.BatchSettleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBatchSettleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lookup answers what a Claim would find, without claiming: it writes nothing, grants nothing, parks nothing, and
     * compares no fingerprint. It is for clients that ask how a message stands, such as a status page or a duplicate
     * request. It needs the right `claim`, and counts towards no quota of the consumer. What holds grants back (a
     * `disabled` policy, a hold, a closed run, a policy that this server cannot read, a clock that is behind) does not
     * hold it back. It is not a permission to process a message: only `acquired` is one. With a `wait` it is answered once the
     * entry is COMPLETED, FAILED_TERMINAL or PARKED.
     * Its own errors: UNKNOWN_CONSUMER; REPLAY_RUN_UNKNOWN.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.LookupResponse> lookup(
        idempotencyledger.client.proto.LookupRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getLookupMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * BatchLookup answers each request once, in the same order, independently of its neighbours.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Lookup, with the same status code.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.BatchLookupResponse> batchLookup(
        idempotencyledger.client.proto.BatchLookupRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBatchLookupMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Store keeps a message for a consumer whose policy has `inbox`, so that it can be acknowledged before it is processed.
     * Workers take it by ClaimNext, until its entry is COMPLETED or FAILED_TERMINAL. It grants nothing. A repeat is answered
     * with the same advice. Needs the right `store` on the consumer.
     * Its own errors: UNKNOWN_CONSUMER; INBOX_OFF. Only in place of a write: BACKLOG_FULL; POLICY_UNREADABLE;
     * STORE_UNAVAILABLE (where the policies could not be read for too long). Only in place of a new entry: STORE_CLOCK_BEHIND;
     * STORE_CLOCK_AHEAD.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.StoreResponse> store(
        idempotencyledger.client.proto.StoreRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getStoreMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * BatchStore stores many messages in one call: 1,000 at most, and requests of 3.5 MiB. Each has its own answer,
     * in the same order; messages under the same key are stored one after the other.
     * Its own errors: TOO_MANY_ITEMS (also of more than 1,000 requests). An item may have every error of a
     * Store, with the same status code.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.BatchStoreResponse> batchStore(
        idempotencyledger.client.proto.BatchStoreRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBatchStoreMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ClaimNext is a Claim for which the server chooses the keys: it hands out stored messages of one consumer that are due,
     * roughly the oldest first, each under a lease. Settle each as after a Claim. A message whose lease ran out twice in a row
     * is handed out alone, since it may kill the workers that process it. All leases run from this call on: ask for at most as many
     * messages as half of the lease suffices for. Needs the right `claim` on the consumer.
     * Repeat a call whose answer was lost with the same `claim_id`: it is answered the messages that it was handed out and still
     * holds. Each new call needs a new `claim_id`, also after an answer without messages.
     * Its own errors: UNKNOWN_CONSUMER; QUOTA_EXCEEDED; CLAIM_CLOSED (status ABORTED: the messages that this claim_id was handed
     * out have ended; a new call uses a new claim_id). Only where a message is due: CONSUMER_DISABLED; POLICY_UNREADABLE;
     * STORE_CLOCK_BEHIND; STORE_CLOCK_AHEAD; STORE_UNAVAILABLE (where the policies could not be read for too long).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<idempotencyledger.client.proto.ClaimNextResponse> claimNext(
        idempotencyledger.client.proto.ClaimNextRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getClaimNextMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CLAIM = 0;
  private static final int METHODID_RENEW = 1;
  private static final int METHODID_COMPLETE = 2;
  private static final int METHODID_FAIL = 3;
  private static final int METHODID_RELEASE = 4;
  private static final int METHODID_BATCH_CLAIM = 5;
  private static final int METHODID_BATCH_SETTLE = 6;
  private static final int METHODID_LOOKUP = 7;
  private static final int METHODID_BATCH_LOOKUP = 8;
  private static final int METHODID_STORE = 9;
  private static final int METHODID_BATCH_STORE = 10;
  private static final int METHODID_CLAIM_NEXT = 11;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_CLAIM:
          serviceImpl.claim((idempotencyledger.client.proto.ClaimRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.ClaimResponse>) responseObserver);
          break;
        case METHODID_RENEW:
          serviceImpl.renew((idempotencyledger.client.proto.RenewRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.RenewResponse>) responseObserver);
          break;
        case METHODID_COMPLETE:
          serviceImpl.complete((idempotencyledger.client.proto.CompleteRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.CompleteResponse>) responseObserver);
          break;
        case METHODID_FAIL:
          serviceImpl.fail((idempotencyledger.client.proto.FailRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.FailResponse>) responseObserver);
          break;
        case METHODID_RELEASE:
          serviceImpl.release((idempotencyledger.client.proto.ReleaseRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.ReleaseResponse>) responseObserver);
          break;
        case METHODID_BATCH_CLAIM:
          serviceImpl.batchClaim((idempotencyledger.client.proto.BatchClaimRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchClaimResponse>) responseObserver);
          break;
        case METHODID_BATCH_SETTLE:
          serviceImpl.batchSettle((idempotencyledger.client.proto.BatchSettleRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchSettleResponse>) responseObserver);
          break;
        case METHODID_LOOKUP:
          serviceImpl.lookup((idempotencyledger.client.proto.LookupRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.LookupResponse>) responseObserver);
          break;
        case METHODID_BATCH_LOOKUP:
          serviceImpl.batchLookup((idempotencyledger.client.proto.BatchLookupRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchLookupResponse>) responseObserver);
          break;
        case METHODID_STORE:
          serviceImpl.store((idempotencyledger.client.proto.StoreRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.StoreResponse>) responseObserver);
          break;
        case METHODID_BATCH_STORE:
          serviceImpl.batchStore((idempotencyledger.client.proto.BatchStoreRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.BatchStoreResponse>) responseObserver);
          break;
        case METHODID_CLAIM_NEXT:
          serviceImpl.claimNext((idempotencyledger.client.proto.ClaimNextRequest) request,
              (io.grpc.stub.StreamObserver<idempotencyledger.client.proto.ClaimNextResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getClaimMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.ClaimRequest,
              idempotencyledger.client.proto.ClaimResponse>(
                service, METHODID_CLAIM)))
        .addMethod(
          getRenewMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.RenewRequest,
              idempotencyledger.client.proto.RenewResponse>(
                service, METHODID_RENEW)))
        .addMethod(
          getCompleteMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.CompleteRequest,
              idempotencyledger.client.proto.CompleteResponse>(
                service, METHODID_COMPLETE)))
        .addMethod(
          getFailMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.FailRequest,
              idempotencyledger.client.proto.FailResponse>(
                service, METHODID_FAIL)))
        .addMethod(
          getReleaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.ReleaseRequest,
              idempotencyledger.client.proto.ReleaseResponse>(
                service, METHODID_RELEASE)))
        .addMethod(
          getBatchClaimMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.BatchClaimRequest,
              idempotencyledger.client.proto.BatchClaimResponse>(
                service, METHODID_BATCH_CLAIM)))
        .addMethod(
          getBatchSettleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.BatchSettleRequest,
              idempotencyledger.client.proto.BatchSettleResponse>(
                service, METHODID_BATCH_SETTLE)))
        .addMethod(
          getLookupMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.LookupRequest,
              idempotencyledger.client.proto.LookupResponse>(
                service, METHODID_LOOKUP)))
        .addMethod(
          getBatchLookupMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.BatchLookupRequest,
              idempotencyledger.client.proto.BatchLookupResponse>(
                service, METHODID_BATCH_LOOKUP)))
        .addMethod(
          getStoreMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.StoreRequest,
              idempotencyledger.client.proto.StoreResponse>(
                service, METHODID_STORE)))
        .addMethod(
          getBatchStoreMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.BatchStoreRequest,
              idempotencyledger.client.proto.BatchStoreResponse>(
                service, METHODID_BATCH_STORE)))
        .addMethod(
          getClaimNextMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              idempotencyledger.client.proto.ClaimNextRequest,
              idempotencyledger.client.proto.ClaimNextResponse>(
                service, METHODID_CLAIM_NEXT)))
        .build();
  }

  private static abstract class LedgerServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    LedgerServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return idempotencyledger.client.proto.Ledger.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("LedgerService");
    }
  }

  private static final class LedgerServiceFileDescriptorSupplier
      extends LedgerServiceBaseDescriptorSupplier {
    LedgerServiceFileDescriptorSupplier() {}
  }

  private static final class LedgerServiceMethodDescriptorSupplier
      extends LedgerServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    LedgerServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (LedgerServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new LedgerServiceFileDescriptorSupplier())
              .addMethod(getClaimMethod())
              .addMethod(getRenewMethod())
              .addMethod(getCompleteMethod())
              .addMethod(getFailMethod())
              .addMethod(getReleaseMethod())
              .addMethod(getBatchClaimMethod())
              .addMethod(getBatchSettleMethod())
              .addMethod(getLookupMethod())
              .addMethod(getBatchLookupMethod())
              .addMethod(getStoreMethod())
              .addMethod(getBatchStoreMethod())
              .addMethod(getClaimNextMethod())
              .build();
        }
      }
    }
    return result;
  }
}
