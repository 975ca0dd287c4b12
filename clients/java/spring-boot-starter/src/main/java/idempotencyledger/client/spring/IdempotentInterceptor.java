package idempotencyledger.client.spring;

import idempotencyledger.client.Claim;
import idempotencyledger.client.Codec;
import idempotencyledger.client.Delivery;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Key;
import idempotencyledger.client.Ledger;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.lang.reflect.UndeclaredThrowableException;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.aop.support.AopUtils;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;
import org.springframework.expression.spel.standard.SpelExpressionParser;

/** Calls a method through the ledger. */
final class IdempotentInterceptor implements MethodInterceptor {
  private final Supplier<Ledger> ledger;
  private final Supplier<ValueCodec> codec;
  private final SpelExpressionParser parser = new SpelExpressionParser();
  private final Map<String, Expression> expressions = new ConcurrentHashMap<>();
  private final ParameterNameDiscoverer names = new DefaultParameterNameDiscoverer();

  /** The beans are asked for with the first call: an advisor must not create them early. */
  IdempotentInterceptor(Supplier<Ledger> ledger, Supplier<ValueCodec> codec) {
    this.ledger = ledger;
    this.codec = codec;
  }

  @Override
  public Object invoke(MethodInvocation invocation) throws Throwable {
    Class<?> type = invocation.getThis() == null ? null : invocation.getThis().getClass();
    Method method = AopUtils.getMostSpecificMethod(invocation.getMethod(), type);
    Idempotent named = AnnotatedElementUtils.findMergedAnnotation(method, Idempotent.class);
    if (named == null) {
      return invocation.proceed();
    }
    refuseFuture(method);
    Delivery delivery = delivery(named, method, invocation);
    return ledger
        .get()
        .call(
            delivery, codecOf(method.getGenericReturnType()), claim -> proceed(invocation, claim));
  }

  private static void refuseFuture(Method method) {
    Class<?> type = method.getReturnType();
    if (Future.class.isAssignableFrom(type) || CompletionStage.class.isAssignableFrom(type)) {
      throw new InvalidFieldException(
          "method",
          declared(method)
              + " returns a "
              + type.getSimpleName()
              + ", whose work may still run when the call is completed: return its value");
    }
  }

  private static String declared(Method method) {
    return method.getDeclaringClass().getSimpleName() + "." + method.getName();
  }

  private Delivery delivery(Idempotent named, Method method, MethodInvocation invocation) {
    EvaluationContext context =
        new MethodBasedEvaluationContext(
            invocation.getThis(), method, invocation.getArguments(), names);
    Object id = value(named.key(), context);
    if (id == null) {
      throw new InvalidFieldException("key.id", "the expression " + named.key() + " is null");
    }
    String source = named.source().isEmpty() ? declared(method) : named.source();
    Key key = Key.of(source, id.toString());
    // A call is not a message: what is wrong with its key is the program's fault.
    key.fault()
        .ifPresent(
            fault -> {
              throw fault;
            });
    Delivery delivery = Delivery.of(key).withWait(DurationStyle.detectAndParse(named.maxWait()));
    if (named.body().isEmpty()) {
      return delivery;
    }
    if (value(named.body(), context) instanceof byte[] raw) {
      return delivery.withBody(raw);
    }
    throw new InvalidFieldException(
        "fingerprint", "the expression " + named.body() + " must give the raw bytes");
  }

  private Object value(String expression, EvaluationContext context) {
    return expressions.computeIfAbsent(expression, parser::parseExpression).getValue(context);
  }

  private Codec<Object> codecOf(Type type) {
    ValueCodec values = codec.get();
    return new Codec<>() {
      @Override
      public byte[] encode(Object value) {
        return values.encode(value, type);
      }

      @Override
      public Object decode(byte[] bytes) {
        return values.decode(bytes, type);
      }
    };
  }

  private static Object proceed(MethodInvocation invocation, Claim claim) throws Exception {
    Class<?>[] types = invocation.getMethod().getParameterTypes();
    for (int at = 0; at < types.length; at++) {
      if (types[at] == Claim.class) {
        invocation.getArguments()[at] = claim;
      }
    }
    try {
      return invocation.proceed();
    } catch (Exception | Error error) {
      throw error;
    } catch (Throwable other) {
      throw new UndeclaredThrowableException(other);
    }
  }
}
